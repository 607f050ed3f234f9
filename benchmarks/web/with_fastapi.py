"""FastAPI: an answer of pydantic."""

from __future__ import annotations

from fastapi import FastAPI
from pydantic import BaseModel


class Greeting(BaseModel):  # type: ignore[misc,unused-ignore]
    """The answer."""

    text: str


app = FastAPI(openapi_url=None)


@app.get("/")  # type: ignore[untyped-decorator,unused-ignore]
async def hello() -> Greeting:
    """The text of the others, as JSON."""
    return Greeting(text="Hello, world!")
