"""Where the guard meets LangChain and LangGraph; only these modules import them."""
