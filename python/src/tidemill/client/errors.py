"""Every error that a client raises, so that a program can catch the kind that it can do something about.

An answer of the server is an `ApiError`, or the subclass for its status. No answer at all is `Unreachable`, and a
stream that could not be continued is `StreamLost`. The results of a run (`RunFailed`, `RunStopped`, `RunPaused`) are
those of the engine, in `tidemill.errors`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidemill.errors import Refused, TidemillError


class ClientError(TidemillError):
    """The base of all errors of a client."""


class ApiError(ClientError, Refused):
    """The server refused a request, or failed at it.

    `code` and `message` are those of its answer, `diagnostics` the problems of a refused workflow. `details` is the
    whole body, with fields that only some errors have.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        details: Mapping[str, Any] | None = None,
        retry_after: float | None = None,
        request: str = "",
    ) -> None:
        self.details: dict[str, Any] = dict(details or {})
        Refused.__init__(self, code, message, self.details.get("diagnostics") or [])
        self.args = (status, code, message)
        self.status = status
        self.retry_after = retry_after
        """Seconds after which the server asks to try again; `None` when it does not say."""
        self.request = request
        """Method and path of the request."""

    def __str__(self) -> str:
        where = f"{self.request}: " if self.request else ""
        problems = [f"\n  {_problem(one)}" for one in self.diagnostics] if len(self.diagnostics) > 1 else []
        return f"{self.message} ({where}{self.status} {self.code}){''.join(problems)}"


def _problem(diagnostic: Mapping[str, Any]) -> str:
    line = diagnostic.get("line")
    return f"line {line}: {diagnostic.get('message')}" if line else str(diagnostic.get("message"))


class InvalidRequest(ApiError):
    """400: a value does not fit, cannot be read, or is not supported."""

    @property
    def errors(self) -> list[str]:
        """The reasons why an answer to a pause does not fit."""
        return list(self.details.get("errors") or [])


class Unauthorized(ApiError):
    """401: no key, a wrong key, or a revoked one."""


class BudgetExceeded(ApiError):
    """402: the API key has spent its budget."""


class Forbidden(ApiError):
    """403: the API is closed, or a quota is used up."""


class NotFound(ApiError):
    """404: no such app, run, pause or other thing."""


class Conflict(ApiError):
    """409: something else was there first, or a key was used before for another request."""


class RunOver(Conflict):
    """409 `run_over`: the run has ended and accepts nothing more."""

    @property
    def run_status(self) -> str:
        """The status with which the run ended."""
        return str(self.details.get("run_status") or "")


class Gone(ApiError):
    """410: the pause has expired or was cancelled."""


class TooLarge(ApiError):
    """413: a value, a body or a file is over its limit."""


class InvalidWorkflow(ApiError):
    """422: the workflow cannot run; `diagnostics` has the reasons."""


class TooManyRequests(ApiError):
    """429: too much at once."""


class Unavailable(ApiError):
    """503: the server cannot serve the request now."""


class ServerFailed(ApiError):
    """Another 5xx: the server failed."""


class UnreadableAnswer(ClientError):
    """The answer is not one of this API: mostly the address belongs to another server."""


class Unreachable(ClientError):
    """No answer came. `may_have_happened` says whether the request may have reached the server."""

    def __init__(self, message: str, *, may_have_happened: bool = True, attempts: int = 0) -> None:
        super().__init__(message)
        self.may_have_happened = may_have_happened
        self.attempts = attempts


class StreamLost(ClientError):
    """The events of a run could not be continued. Follow the run again after `position` when the server is back."""

    def __init__(self, message: str, *, run_id: str = "", position: str | None = None, attempts: int = 0) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.position = position
        """The place after the last event that was received, for `events(after=…)`; `None`: from the beginning."""
        self.attempts = attempts


OF_STATUS: dict[int, type[ApiError]] = {
    400: InvalidRequest,
    401: Unauthorized,
    402: BudgetExceeded,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    413: TooLarge,
    422: InvalidWorkflow,
    429: TooManyRequests,
    503: Unavailable,
}
"""The class of each status; another 5xx is `ServerFailed`, all others are plain `ApiError`."""

OF_CODE: dict[str, type[ApiError]] = {"run_over": RunOver}
"""Classes of single codes. They win over that of the status."""


def class_of(status: int, code: str) -> type[ApiError]:
    """Return the class of an error with this status and code."""
    usual: type[ApiError] = ServerFailed if status >= 500 else ApiError
    return OF_CODE.get(code) or OF_STATUS.get(status, usual)
