"""A real HTTP server on 127.0.0.1 that speaks OpenAI's ``/v1/embeddings``; its vectors are not of unit length."""

from __future__ import annotations

from typing import Any

from tests.ollama_server import FaultyServer, Reply, Request, vector_of


class OpenAIServer(FaultyServer):
    """``POST /v1/embeddings`` with items out of order, as the standard allows; ``api_key`` is asked for when set."""

    def __init__(self, *, api_key: str = "", dimensions: int = 768) -> None:
        super().__init__(dimensions=dimensions)
        self.api_key = api_key

    def healthy(self, request: Request) -> Reply:
        if (request.method, request.path) != ("POST", "/v1/embeddings"):
            return Reply(404, {"error": {"message": f"Unknown request URL: {request.method} {request.path}"}})
        sent = {name.lower(): value for name, value in request.headers.items()}.get("authorization", "")
        if self.api_key and sent != f"Bearer {self.api_key}":
            return Reply(401, {"error": {"message": f"Incorrect API key provided: {sent.removeprefix('Bearer ')}"}})
        width = int(request.body.get("dimensions", self.dimensions))
        return Reply(body=self.data([[3.0 * x for x in vector_of(text, width)] for text in request.texts], request))

    def data(self, rows: list[Any], request: Request) -> dict[str, Any]:
        items = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
        tokens = sum(len(text.split()) for text in request.texts)
        return {
            "object": "list",
            "data": items[::-1],
            "model": request.body.get("model"),
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
