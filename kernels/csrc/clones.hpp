// Functions that are compiled for several instruction sets, of which the loader picks one, where the
// compiler can do that. Nothing is contracted or reordered, so all of them give the same bits.
#pragma once

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__)
#define KERNELS_CLONES __attribute__((target_clones("default", "avx2", "avx512f")))
#else
#define KERNELS_CLONES
#endif
// What a clone calls must become part of it, or it stays in the baseline set.
#if defined(__GNUC__)
#define KERNELS_INLINE __attribute__((always_inline)) inline
#else
#define KERNELS_INLINE inline
#endif
#if defined(__GNUC__)
#define KERNELS_FLAT __attribute__((flatten))
#else
#define KERNELS_FLAT
#endif
