"""What commands print: settings, progress, tables, results and errors, escaped for terminals and logs.

Start reading with `report.py`.
"""
