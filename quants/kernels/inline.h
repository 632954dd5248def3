#pragma once
// Compiler attributes for code that is compiled once per instruction set.

// Everything an ISA unit defines is inlined or local: a shared copy compiled for a newer processor must never
// be the one that the linker keeps. The tests' emulated tables define it without inlining.
#ifndef TSR_INLINE
#define TSR_INLINE [[gnu::always_inline]] static inline
#endif

// Tells gcc not to clone a function for constant arguments: tiles are large and gain nothing by it.
#if defined(__clang__)
#define TSR_NO_CLONES
#else
#define TSR_NO_CLONES gnu::noclone
#endif

// Hides the origin of the pointer p from the compiler, which then gives p a register instead of one to each
// address that it could compute from it beforehand.
#define TSR_OWN_REGISTER(p) asm("" : "+r"(p))

// TSR_UNROLL: above every loop over an array of vectors that must live in registers. Without it gcc 12 keeps
// the array in memory (a third of the speed); both spellings unroll completely, all such loops being short
// and constant.
//
// TSR_ROLLED: above a loop that must stay a loop. gcc 12 unrolls eight iterations by itself, interleaves
// them, and then spills their accumulators.
#if defined(__clang__)
#define TSR_UNROLL _Pragma("clang loop unroll(full)")
#define TSR_ROLLED _Pragma("clang loop unroll(disable)")
#else
#define TSR_UNROLL _Pragma("GCC unroll 32")
#define TSR_ROLLED _Pragma("GCC unroll 1")
#endif
