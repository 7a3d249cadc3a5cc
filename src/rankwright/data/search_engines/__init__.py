"""Files of search engines: logged features, judgment lists, and the hits of a search response."""
