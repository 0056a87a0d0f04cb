"""DLPack capsules made by hand: what a broken or hostile producer could hand over."""

import ctypes

CPU, CUDA, CUDA_HOST, ONE_API = 1, 2, 3, 14
FLOAT, INT = 2, 0


class Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    pass


Deleter = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [("tensor", Tensor), ("context", ctypes.c_void_p), ("deleter", Deleter)]

_new = ctypes.pythonapi.PyCapsule_New
_new.restype = ctypes.py_object
_new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def _list(values):
    return None if values is None else (ctypes.c_int64 * max(len(values), 1))(*values)


class Producer:
    """An object with `__dlpack__` whose tensor has exactly these fields; `stated` is what it says of its device."""

    def __init__(
        self,
        shape=(4,),
        strides=None,
        *,
        data=None,
        device=CPU,
        stated=None,
        ndim=None,
        dtype=(FLOAT, 32, 1),
        byte_offset=0,
    ):
        self.given = self.deleted = 0
        self.kept = (_list(shape), _list(strides))
        fields = [ctypes.cast(item, ctypes.POINTER(ctypes.c_int64)) if item else None for item in self.kept]
        tensor = Tensor(data, device, 0, len(shape or ()) if ndim is None else ndim, *dtype, *fields, byte_offset)
        self.managed = Managed(tensor, None, Deleter(self._delete))
        if stated is not None:
            self.__dlpack_device__ = lambda: stated

    def _delete(self, _managed):
        self.deleted += 1

    def __dlpack__(self, **_options):
        self.given += 1
        return _new(ctypes.addressof(self.managed), b"dltensor", None)
