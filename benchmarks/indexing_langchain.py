"""LangChain's PGVectorStore ingesting what ``indexing.py`` hands it; run by an interpreter that has it installed.

    python indexing_langchain.py CONNECTION_STRING DATA.npz

Prints the seconds that ``add_embeddings`` took by the clock and of this process, into a table with an HNSW and a GIN
index, as the product's has them.
"""

from __future__ import annotations

import sys
import time

import numpy as np
from langchain_core.embeddings import Embeddings
from langchain_postgres import PGEngine, PGVectorStore
from langchain_postgres.v2.hybrid_search_config import HybridSearchConfig
from langchain_postgres.v2.indexes import DistanceStrategy, HNSWIndex

TABLE = "benchmark_langchain"


class NoEmbeddings(Embeddings):
    """The vectors are given; asking for more is a mistake."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        raise NotImplementedError

    def embed_query(self, text: str) -> list[float]:
        raise NotImplementedError


def main() -> None:
    """Make the table and its indexes, fill it, drop it."""
    url, path = sys.argv[1:]
    with np.load(path, allow_pickle=False) as data:
        texts, vectors = data["texts"].tolist(), data["vectors"].tolist()
    engine = PGEngine.from_connection_string(url)
    hybrid = HybridSearchConfig(tsv_lang="pg_catalog.english", tsv_column="content_tsv")
    engine.init_vectorstore_table(
        TABLE, vector_size=len(vectors[0]), hybrid_search_config=hybrid, overwrite_existing=True
    )
    store = PGVectorStore.create_sync(engine, NoEmbeddings(), TABLE, hybrid_search_config=hybrid)
    store.apply_vector_index(HNSWIndex(m=16, ef_construction=64, distance_strategy=DistanceStrategy.COSINE_DISTANCE))
    store.apply_hybrid_search_index()
    started, computing = time.perf_counter(), time.process_time()
    store.add_embeddings(texts, vectors)
    print(time.perf_counter() - started, time.process_time() - computing)
    engine.drop_table(TABLE)


if __name__ == "__main__":
    main()
