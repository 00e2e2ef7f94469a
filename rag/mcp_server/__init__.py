"""An MCP server for coding agents: searching and reading named projects, nothing else.

``server.create_server`` builds it (extra ``mcp``), ``stdio.serve`` serves it over standard input and output. This file
imports nothing, so that ``wire`` can come before everything else.
"""
