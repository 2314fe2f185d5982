"""NIfTI images by nibabel: read by parts where they are not compressed."""

from __future__ import annotations

from functools import cached_property
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.errors import Misuse
from pipeline.sources.npy import NpyArray

SYMMETRIC = 1005
"""NIFTI_INTENT_SYMMATRIX: the lower triangle, row by row (nifti1.h)."""
WHOLE = 2**31
"""Bytes up to which a compressed image is read whole, once in every process."""
CODES = ("unknown", "scanner", "aligned", "talairach", "mni")


def is_nifti(path: str) -> bool:
    """Whether a path is that of a NIfTI image, by its ending."""
    return path.lower().endswith((".nii", ".nii.gz"))


class NiftiImage(NpyArray):
    """The voxels of one image; attributes and methods as of `npy.NpyArray`.

    A fourth dimension of length 1, which NIfTI puts before the elements of a matrix, is left out.

    Parameters
    ----------
    path : Path
    mask : bool
        Deliver whether values are above 0.
    """

    def __init__(self, path: Path, *, mask: bool = False) -> None:
        self.path, self.name, self._mask = path, path.name.partition(".")[0], mask
        if not path.is_file():
            raise Misuse(f"{path} does not exist; expected a NIfTI image")
        self._size = path.stat().st_size
        header = self._image.header
        self._check_size(header)
        values = self._map()
        self.shape, self.dtype = values.shape, values.dtype
        self.names = tuple("xyzt"[: values.ndim] if mask else (*"xyzt"[: values.ndim - 1], None))
        self._fortran = True
        self.attrs: dict[str, Any] = {}
        slope, inter = self._image.dataobj.slope, self._image.dataobj.inter
        if not mask and (slope, inter) != (1, 0):
            self.attrs |= {"scale_factor": float(slope), "add_offset": float(inter)}
        if int(header["intent_code"]) == SYMMETRIC:
            self.attrs["packing"] = "lower"

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k not in ("_image", "_unpacked")}

    @cached_property
    def _image(self) -> Any:
        try:
            import nibabel  # type: ignore[import-not-found,unused-ignore]  # optional
        except ImportError:
            raise Misuse(
                f"{self.path} is a NIfTI image, for which nibabel is needed: "
                f"pip install 'eigenstream[nifti]'"
            ) from None
        try:
            return nibabel.load(self.path)
        except Exception as error:
            raise Misuse(f"{self.path} cannot be read by nibabel: {error}") from error

    def _check_size(self, header: Any) -> None:
        """Refuse to unpack a large image in every process."""
        whole = prod(header.get_data_shape()) * header.get_data_dtype().itemsize
        if self.path.suffix == ".gz" and whole > WHOLE:
            raise Misuse(
                f"{self.path} has {whole / 2**30:.1f} GiB when unpacked, and a compressed image "
                f"cannot be read by parts; unpack it first: gunzip -k {self.path.name}"
            )

    @cached_property
    def _unpacked(self) -> NDArray[Any]:
        values = np.asarray(self._image.dataobj.get_unscaled())
        if values.ndim == 5 and values.shape[3] == 1:
            values = values[:, :, :, 0]
        return values > 0 if self._mask else values

    def _map(self) -> NDArray[Any]:
        # mapped into memory by nibabel, unless it is compressed
        return self._unpacked

    def place(self) -> dict[str, Any]:
        """Attributes that say where voxels lie; nothing is rotated by them."""
        header = self._image.header
        code = int(header["sform_code"]) or int(header["qform_code"])
        return {
            "affine": [float(x) for x in np.asarray(self._image.affine).ravel()],
            "affine_meaning": "4 x 4, row by row: voxel indices to mm, to the right, front and top",
            "affine_space": CODES[code] if code < len(CODES) else f"code {code}",
            "voxel_sizes": [float(x) for x in header.get_zooms()[:3]],
        }

    def identify(self) -> dict[str, Any]:
        """What makes this image this image: type, shape, affine and file size."""
        metadata = {"shape": list(self.shape), "dtype": self.dtype.str, **self.attrs}
        metadata |= self.place()
        return {"format": "nifti", "metadata": metadata, "chunks": str(self._size)}
