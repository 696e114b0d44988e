"""Failures of the native engine as errors of this package."""

from __future__ import annotations

from types import TracebackType

from ggtts._native import DeviceError, FileError

from ..errors import EngineError, ModelFileError


class _NativeFailures:
    """A context manager without any state, as every run of a program passes through it."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, FileError):
            raise ModelFileError(str(error)) from error
        if isinstance(error, DeviceError):
            raise EngineError(str(error)) from error


_NATIVE_FAILURES = _NativeFailures()


def native_failures() -> _NativeFailures:
    """Raise ModelFileError for a file that cannot be used, and EngineError for a device that failed."""
    return _NATIVE_FAILURES
