"""A report on a model as one HTML file that needs nothing else and runs nothing.

The parts: `gathering` collects the evidence, `pictures` draws it as SVG, `sections` puts it into
words and tables, `page` joins them. Everything is built of elements (`elements`), so that each
string is escaped by construction; a template language would have to be trusted with that. There is
no script in a report, and its content security policy forbids any. Folders of the person who makes
a report stay out of it (`privacy`).
"""
