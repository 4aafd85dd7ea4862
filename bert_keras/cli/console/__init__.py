"""What commands print: settings, progress, tables, results and errors, safe for terminals and logs.

Start with `report.py`.
"""
