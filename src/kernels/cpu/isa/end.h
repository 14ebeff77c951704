// Closes what isa/begin.h opened.

}  // namespace gyre::kernels::GYRE_TARGET

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
