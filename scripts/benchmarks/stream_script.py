"""The peer: what a scientist writes today. `python stream_script.py STORE OUT VECTORS WORKERS`.

As its author would write it well: chunks as they lie in the store, one process a core with one
thread each, no dashboard. Prints the seconds from the first read to the last write.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import xarray as xr
from dask.distributed import Client, LocalCluster


def main() -> None:
    """Solve every matrix of a store by numpy, on a LocalCluster."""
    store, out, vectors, workers = sys.argv[1], sys.argv[2], sys.argv[3] == "true", int(sys.argv[4])
    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster),
    ):
        begun = time.perf_counter()
        a = xr.open_zarr(store, consolidated=False)["A"]
        pairs = {"output_sizes": {"band": a.sizes["row"]}}
        kinds = [np.zeros((), a.dtype).real.dtype, a.dtype]
        found = xr.apply_ufunc(
            np.linalg.eigh if vectors else np.linalg.eigvalsh,
            a,
            input_core_dims=[["row", "column"]],
            output_core_dims=[["band"], ["row", "band"]] if vectors else [["band"]],
            dask="parallelized",
            dask_gufunc_kwargs=pairs,
            output_dtypes=kinds if vectors else kinds[:1],
        )
        names = ("eigenvalues", "eigenvectors") if vectors else ("eigenvalues",)
        result = xr.Dataset(dict(zip(names, found if vectors else (found,), strict=True)))
        result.to_zarr(out, mode="w", zarr_format=3, consolidated=False)
        print(time.perf_counter() - begun)


if __name__ == "__main__":
    main()
