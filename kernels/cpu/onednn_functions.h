// oneDNN's C++ interface over a library of our own choice: the C functions that it calls are looked up in the
// file that onednn_library.cpp opens. A program may have another oneDNN, as LibTorch brings one; by their
// names alone the linker would mix the two, in either direction. In builds against a static oneDNN the
// functions are linked as usual.
#pragma once

#include <dnnl.h>

#ifdef MEZZO_ONEDNN_LIBRARY

namespace mezzo::kernels::cpu {

/// The address of one of oneDNN's functions. Throws Error where the library is not there or is older than the
/// headers.
[[nodiscard]] void* onednn_function(const char* name);

}  // namespace mezzo::kernels::cpu

#define MEZZO_ONEDNN(name)                                                                  \
  ([] {                                                                                     \
    static const auto of_library =                                                          \
        reinterpret_cast<decltype(&::name)>(::mezzo::kernels::cpu::onednn_function(#name)); \
    return of_library;                                                                      \
  }())

// The C functions of versions 2.5 to 3.7 that unoptimised objects ask for. A version has some of them; macros
// of functions that it lacks are never used.
#define dnnl_convolution_backward_data_primitive_desc_create \
  MEZZO_ONEDNN(dnnl_convolution_backward_data_primitive_desc_create)
#define dnnl_convolution_backward_weights_primitive_desc_create \
  MEZZO_ONEDNN(dnnl_convolution_backward_weights_primitive_desc_create)
#define dnnl_convolution_forward_primitive_desc_create \
  MEZZO_ONEDNN(dnnl_convolution_forward_primitive_desc_create)
#define dnnl_dilated_convolution_backward_data_desc_init \
  MEZZO_ONEDNN(dnnl_dilated_convolution_backward_data_desc_init)
#define dnnl_dilated_convolution_backward_weights_desc_init \
  MEZZO_ONEDNN(dnnl_dilated_convolution_backward_weights_desc_init)
#define dnnl_dilated_convolution_forward_desc_init MEZZO_ONEDNN(dnnl_dilated_convolution_forward_desc_init)
#define dnnl_engine_create MEZZO_ONEDNN(dnnl_engine_create)
#define dnnl_engine_destroy MEZZO_ONEDNN(dnnl_engine_destroy)
#define dnnl_get_effective_cpu_isa MEZZO_ONEDNN(dnnl_get_effective_cpu_isa)
#define dnnl_matmul_desc_init MEZZO_ONEDNN(dnnl_matmul_desc_init)
#define dnnl_matmul_primitive_desc_create MEZZO_ONEDNN(dnnl_matmul_primitive_desc_create)
#define dnnl_memory_create MEZZO_ONEDNN(dnnl_memory_create)
#define dnnl_memory_create_v2 MEZZO_ONEDNN(dnnl_memory_create_v2)
#define dnnl_memory_desc_clone MEZZO_ONEDNN(dnnl_memory_desc_clone)
#define dnnl_memory_desc_create_with_strides MEZZO_ONEDNN(dnnl_memory_desc_create_with_strides)
#define dnnl_memory_desc_create_with_tag MEZZO_ONEDNN(dnnl_memory_desc_create_with_tag)
#define dnnl_memory_desc_destroy MEZZO_ONEDNN(dnnl_memory_desc_destroy)
#define dnnl_memory_desc_equal MEZZO_ONEDNN(dnnl_memory_desc_equal)
#define dnnl_memory_desc_get_size MEZZO_ONEDNN(dnnl_memory_desc_get_size)
#define dnnl_memory_desc_get_size_v2 MEZZO_ONEDNN(dnnl_memory_desc_get_size_v2)
#define dnnl_memory_desc_init_by_strides MEZZO_ONEDNN(dnnl_memory_desc_init_by_strides)
#define dnnl_memory_desc_init_by_tag MEZZO_ONEDNN(dnnl_memory_desc_init_by_tag)
#define dnnl_memory_desc_query MEZZO_ONEDNN(dnnl_memory_desc_query)
#define dnnl_memory_destroy MEZZO_ONEDNN(dnnl_memory_destroy)
#define dnnl_memory_set_data_handle MEZZO_ONEDNN(dnnl_memory_set_data_handle)
#define dnnl_memory_set_data_handle_v2 MEZZO_ONEDNN(dnnl_memory_set_data_handle_v2)
#define dnnl_post_ops_append_sum MEZZO_ONEDNN(dnnl_post_ops_append_sum)
#define dnnl_post_ops_append_sum_v2 MEZZO_ONEDNN(dnnl_post_ops_append_sum_v2)
#define dnnl_post_ops_create MEZZO_ONEDNN(dnnl_post_ops_create)
#define dnnl_post_ops_destroy MEZZO_ONEDNN(dnnl_post_ops_destroy)
#define dnnl_primitive_attr_create MEZZO_ONEDNN(dnnl_primitive_attr_create)
#define dnnl_primitive_attr_destroy MEZZO_ONEDNN(dnnl_primitive_attr_destroy)
#define dnnl_primitive_attr_set_post_ops MEZZO_ONEDNN(dnnl_primitive_attr_set_post_ops)
#define dnnl_primitive_attr_set_scratchpad_mode MEZZO_ONEDNN(dnnl_primitive_attr_set_scratchpad_mode)
#define dnnl_primitive_create MEZZO_ONEDNN(dnnl_primitive_create)
#define dnnl_primitive_desc_destroy MEZZO_ONEDNN(dnnl_primitive_desc_destroy)
#define dnnl_primitive_desc_iterator_create MEZZO_ONEDNN(dnnl_primitive_desc_iterator_create)
#define dnnl_primitive_desc_iterator_destroy MEZZO_ONEDNN(dnnl_primitive_desc_iterator_destroy)
#define dnnl_primitive_desc_iterator_fetch MEZZO_ONEDNN(dnnl_primitive_desc_iterator_fetch)
#define dnnl_primitive_desc_query MEZZO_ONEDNN(dnnl_primitive_desc_query)
#define dnnl_primitive_desc_query_md MEZZO_ONEDNN(dnnl_primitive_desc_query_md)
#define dnnl_primitive_destroy MEZZO_ONEDNN(dnnl_primitive_destroy)
#define dnnl_primitive_execute MEZZO_ONEDNN(dnnl_primitive_execute)
#define dnnl_reorder_primitive_desc_create MEZZO_ONEDNN(dnnl_reorder_primitive_desc_create)
#define dnnl_stream_create MEZZO_ONEDNN(dnnl_stream_create)
#define dnnl_stream_destroy MEZZO_ONEDNN(dnnl_stream_destroy)
#define dnnl_version MEZZO_ONEDNN(dnnl_version)
// Its inline functions are ours too: a program's own uses of the interface go to the library that the program
// links.
#define dnnl mezzo_dnnl

#endif  // MEZZO_ONEDNN_LIBRARY

#include <dnnl.hpp>
