"""Training sessions of a server of EvoPolicyGym for NeMo Gym, which it meets over HTTP alone.

The server speaks the wire of NeMo Gym's resources servers, so this passes each request on, once, with its cookies.
"""

from aiohttp import ClientError
from fastapi import FastAPI, HTTPException, Request, Response
from nemo_gym.base_resources_server import BaseResourcesServer, BaseResourcesServerConfig
from nemo_gym.server_utils import SimpleServer, get_global_aiohttp_client


class TrainingSessionsConfig(BaseResourcesServerConfig):
    """Where the sessions are."""

    url: str
    """The training server's address, with its token if it has one."""


class TrainingSessions(BaseResourcesServer, SimpleServer):
    """Passes requests on to the training server."""

    ray_enabled = False
    config: TrainingSessionsConfig

    def setup_webserver(self) -> FastAPI:
        """Return the application."""
        app = FastAPI()
        app.post("/{path:path}")(self.relay)
        return app

    async def relay(self, path: str, request: Request) -> Response:
        """Answer what the training server answers; a request is never sent twice, as a submission costs episodes."""
        headers = {name: request.headers[name] for name in ("content-type", "cookie") if name in request.headers}
        url = f"{self.config.url.rstrip('/')}/{path}"
        client = get_global_aiohttp_client()
        try:
            async with client.post(url, data=await request.body(), headers=headers) as reply:
                answer = Response(await reply.read(), reply.status, media_type=reply.content_type)
        except ClientError as error:
            raise HTTPException(502, f"The training server at {self.config.url} doesn't answer: {error}") from error
        for cookie in reply.headers.getall("set-cookie", []):
            answer.headers.append("set-cookie", cookie)
        return answer


if __name__ == "__main__":
    TrainingSessions.run_webserver()
