"""The boosting loop, the settings that the data decides, checkpoints and progress."""
