"""Web applications that submit tasks, and their handlers."""

from typing import Any

from fastapi import FastAPI
from flask import Flask, current_app, request

from gnomon.integrations.fastapi import lifespan
from gnomon.integrations.flask import FlaskGnomon
from gnomon.sdk.app import Gnomon

# FastAPI

tasks = Gnomon()
api = FastAPI(lifespan=lifespan(tasks))


@tasks.task
async def greet(name: str) -> str:
    return f"hello {name}"


@api.post("/greet/{name}")
async def submit_greeting(name: str) -> dict[str, Any]:
    handle = await greet.submit(name=name)
    return {"said": await handle.result(timeout="30s")}


# Flask, as a factory makes it

flask_tasks = FlaskGnomon()


@flask_tasks.task
def praise(name: str) -> str:
    return f"{current_app.config['PRAISE']}, {name}"


@flask_tasks.task
async def praise_async(name: str) -> str:
    return f"{current_app.config['PRAISE']}, {name}"


def create_app(**config: Any) -> Flask:
    app = Flask("web_apps")
    app.config.update(PRAISE="well done", **config)
    flask_tasks.init_app(app)

    @app.post("/praise/<name>")
    def submit_praise(name: str) -> dict[str, Any]:
        handler = praise_async if "async" in request.args else praise
        return {"said": handler.submit_sync(name=name).result_sync(timeout="30s")}

    return app
