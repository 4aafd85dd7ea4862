"""The pages for people: `/` to try the models, and `/docs`, which describes the API.

Start with `page_endpoints.py`; the script of each page has the name of the page.
"""
