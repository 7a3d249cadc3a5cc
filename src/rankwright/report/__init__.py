"""Reports: pages of text, tables and charts, and a page that compares runs on test data."""

from rankwright.report.page import Figure, Page, Section, Table, Text, save_page
from rankwright.report.runs_page import run_report

__all__ = ["Figure", "Page", "Section", "Table", "Text", "run_report", "save_page"]
