"""Servers that speak OpenAI's ``/v1/embeddings``: what differs between them, and the key that nobody may see."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import numpy as np
import pytest

from rag.core.errors import BadAnswer, InputTooLong, InvalidInput, ProviderBusy, ProviderUnavailable
from rag.embedders.factory import create_embedder
from rag.embedders.openai import OpenAIEmbedder
from tests.ollama_server import Reply, always, vector_of
from tests.openai_server import OpenAIServer

KEY = "sk-fake-0123456789"
PATIENCE = 20.0


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(api_key=KEY) as running:
        yield running


def embedder_of(server: OpenAIServer, *, api_key: str = KEY, path: str = "") -> OpenAIEmbedder:
    return OpenAIEmbedder(model="some-model", base_url=server.url + path, api_key=api_key)


def test_the_request_names_the_model_and_asks_for_plain_numbers(server: OpenAIServer) -> None:
    embedder_of(server).embed(["a", "b"], timeout=PATIENCE)
    assert server.requests[0].body == {"model": "some-model", "input": ["a", "b"], "encoding_format": "float"}


def test_items_are_ordered_by_their_index(server: OpenAIServer) -> None:
    vectors = embedder_of(server).embed(["first words", "second thing"], timeout=PATIENCE).vectors
    assert np.allclose(vectors[0] / 3, vector_of("first words"), atol=1e-6)


@pytest.mark.parametrize("path", ["", "/", "/v1", "/v1/", "/v1/embeddings"])
def test_the_base_url_may_hold_the_version_or_not(server: OpenAIServer, path: str) -> None:
    embedder_of(server, path=path).embed(["a"], timeout=PATIENCE)
    assert server.requests[0].path == "/v1/embeddings"


def test_a_model_that_can_shorten_its_vectors_is_asked_to(server: OpenAIServer) -> None:
    embedder = create_embedder(
        provider="openai", model="text-embedding-3-small", openai_base_url=server.url, openai_api_key=KEY
    )
    assert embedder.embed(["a"], timeout=PATIENCE).vectors.shape == (1, 768)
    assert server.requests[0].body["dimensions"] == 768


def test_without_the_right_key_the_setting_is_named_and_the_key_is_not(
    server: OpenAIServer, caplog: pytest.LogCaptureFixture
) -> None:
    wrong = "sk-wrong-9876543210"
    embedder = embedder_of(server, api_key=wrong)
    with caplog.at_level(logging.DEBUG), pytest.raises(ProviderUnavailable, match="OPENAI_API_KEY") as caught:
        embedder.embed(["a"], timeout=PATIENCE)
    for shown in (str(caught.value), repr(embedder), caplog.text):
        assert wrong not in shown


def test_a_key_that_cannot_be_a_header_is_refused_unseen() -> None:
    with pytest.raises(InvalidInput, match="OPENAI_API_KEY") as caught:
        OpenAIEmbedder(model="m", api_key="sk-fake\r\nX-Header: 1")
    assert "sk-fake" not in str(caught.value)


def test_a_netrc_does_not_replace_the_key(
    server: OpenAIServer, monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    netrc = f"{tmp_path}/netrc"
    with open(netrc, "w") as file:
        file.write("default login somebody password else\n")
    monkeypatch.setenv("NETRC", netrc)
    assert len(embedder_of(server).embed(["a"], timeout=PATIENCE).vectors) == 1


def test_no_key_sends_no_header() -> None:
    with OpenAIServer() as open_server:
        embedder_of(open_server, api_key="").embed(["a"], timeout=PATIENCE)
        assert "authorization" not in {name.lower() for name in open_server.requests[0].headers}


@pytest.mark.parametrize(
    ("status", "message"),
    [
        (400, "This model's maximum context length is 8192 tokens, however you requested 9000 tokens."),
        (400, "Invalid 'input[0]': maximum input length is 8192 tokens."),
        (422, "Input validation error: `inputs` must have less than 512 tokens. Given: 800"),
        (413, ""),
        (500, "input (1203 tokens) is too large to process. increase the physical batch size"),
        (400, "the request exceeds the available context size (4096 tokens), try increasing it"),
    ],
)
def test_too_long_is_understood_from_every_server(server: OpenAIServer, status: int, message: str) -> None:
    server.fail(always(Reply(status, {"error": {"message": message}})))
    with pytest.raises(InputTooLong):
        embedder_of(server).embed(["a"], timeout=PATIENCE)


def test_a_rate_limit_is_waited_for_and_an_empty_account_is_not(server: OpenAIServer) -> None:
    server.fail(always(Reply(429, {"error": {"message": "Rate limit reached"}}, {"Retry-After": "2"})))
    with pytest.raises(ProviderBusy):
        embedder_of(server).embed(["a"], timeout=PATIENCE)
    server.heal()
    server.fail(always(Reply(429, {"error": {"message": "You exceeded your current quota"}})))
    with pytest.raises(ProviderUnavailable, match="quota"):
        embedder_of(server).embed(["a"], timeout=PATIENCE)


@pytest.mark.parametrize("status", [400, 404])
def test_an_unknown_model_is_answered_with_the_setting(server: OpenAIServer, status: int) -> None:
    server.fail(always(Reply(status, {"error": {"message": "The model `some-model` does not exist"}})))
    with pytest.raises(ProviderUnavailable, match=r"RAG_EMBEDDING_MODEL \(some-model\)"):
        embedder_of(server).embed(["a"], timeout=PATIENCE)


@pytest.mark.parametrize(
    "data",
    [
        None,
        {},
        ["text", "text"],
        [{"index": 0, "embedding": [0.1]}, {"index": 0, "embedding": [0.1]}],
        [{"index": 1, "embedding": [0.1]}, {"index": 2, "embedding": [0.1]}],
        [{"index": 0, "embedding": [0.1]}, {"embedding": [0.1]}],
        [{"index": 0, "embedding": [0.1]}],
        [{"index": 0, "embedding": "zczMPQ=="}, {"index": 1, "embedding": "zczMPQ=="}],
    ],
)
def test_items_that_cannot_be_matched_to_the_texts_are_refused(server: OpenAIServer, data: object) -> None:
    server.fail(always(Reply(200, {"data": data})))
    with pytest.raises(BadAnswer):
        embedder_of(server).embed(["a", "b"], timeout=PATIENCE)


def test_items_without_an_index_are_taken_in_their_order(server: OpenAIServer) -> None:
    server.fail(always(Reply(200, {"data": [{"embedding": [1.0, 0.0]}, {"embedding": [0.0, 1.0]}]})))
    answer = embedder_of(server).embed(["a", "b"], timeout=PATIENCE)
    assert answer.vectors.tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert answer.tokens is None


def test_the_public_api_is_remote_and_a_server_on_this_machine_is_not(server: OpenAIServer) -> None:
    assert OpenAIEmbedder(model="m").is_remote
    assert not embedder_of(server).is_remote
