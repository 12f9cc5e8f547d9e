# The fuzz targets: tests/fuzz/<target>.cpp, listed in tests/fuzz/targets.h too. Those of the first list need a few sources
# of the library alone.
set(mezzo_fuzz_reader_targets json safetensors)
set(mezzo_fuzz_library_targets idx npy npz torch csv bpe image cifar token_file log checkpoint state op)
set(mezzo_fuzz_targets ${mezzo_fuzz_reader_targets} ${mezzo_fuzz_library_targets})
