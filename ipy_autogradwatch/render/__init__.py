"""Stage 4, render: a report as text, as HTML, and as a small JSON. No torch, no IPython.

`outline` chooses what is shown and puts it into words, once; `text` and `html` only lay
it out.
"""

from ipy_autogradwatch.render.bundle import MIME_JSON, mimebundle
from ipy_autogradwatch.render.text import page_text

__all__ = ["MIME_JSON", "mimebundle", "page_text"]
