// oneDNN's convolutions without anything around them: as one call on the whole batch, in the layouts that the
// primitives ask for. Row-major images are brought there and back ("_backward": each array once, for all
// three primitives); the cases named "_blocked" leave that out. Included by bare.cpp, where oneDNN is.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include <dnnl.hpp>

#include "convolutions.h"
#include "worker.h"

namespace bench {

class BareConvolution {
 public:
  BareConvolution(const Convolution& c, bool reorders, bool backward)
      : reorders_(reorders), backward_(backward), stream_(engine_) {
    const dnnl::memory::dims x{c.batch, c.in, c.size, c.size}, y{c.batch, c.out, c.size, c.size}, one{1, 1},
        none{0, 0}, pad{c.padding, c.padding};
    const dnnl::memory::dims w =
        c.groups > 1 ? dnnl::memory::dims{c.groups, c.out / c.groups, c.in / c.groups, c.kernel, c.kernel}
                     : dnnl::memory::dims{c.out, c.in, c.kernel, c.kernel};
    const dnnl::memory::desc any_x = any(x), any_y = any(y), any_w = any(w),
                             bias({c.out}, dnnl::memory::data_type::f32, dnnl::memory::format_tag::a);
    constexpr auto kDirect = dnnl::algorithm::convolution_direct;
    constexpr auto kTraining = dnnl::prop_kind::forward_training;
    using Forward = dnnl::convolution_forward;
    using Data = dnnl::convolution_backward_data;
    using Weights = dnnl::convolution_backward_weights;
#if DNNL_VERSION_MAJOR >= 3
    const Forward::primitive_desc f(engine_, kTraining, kDirect, any_x, any_w, bias, any_y, one, none, pad,
                                    pad);
    const Data::primitive_desc d(engine_, kDirect, any_x, any_w, any_y, one, none, pad, pad, f);
    const Weights::primitive_desc g(engine_, kDirect, any_x, any_w, bias, any_y, one, none, pad, pad, f);
#else
    const Forward::primitive_desc f({kTraining, kDirect, any_x, any_w, bias, any_y, one, none, pad, pad},
                                    engine_);
    const Data::primitive_desc d({kDirect, any_x, any_w, any_y, one, none, pad, pad}, engine_, f);
    const Weights::primitive_desc g({kDirect, any_x, any_w, bias, any_y, one, none, pad, pad}, engine_, f);
#endif
    forward_ = Forward(f), data_ = Data(d), weights_ = Weights(g);
    const dnnl::memory b = filled(bias), inner_x = filled(f.src_desc()), inner_y = filled(f.dst_desc());
    forward_arguments_ = {{DNNL_ARG_SRC, inner_x},
                          {DNNL_ARG_WEIGHTS, filled(f.weights_desc())},
                          {DNNL_ARG_BIAS, b},
                          {DNNL_ARG_DST, inner_y}};
    data_arguments_ = {{DNNL_ARG_DIFF_DST, filled(d.diff_dst_desc())},
                       {DNNL_ARG_WEIGHTS, filled(d.weights_desc())},
                       {DNNL_ARG_DIFF_SRC, filled(d.diff_src_desc())}};
    weights_arguments_ = {
        {DNNL_ARG_SRC, g.src_desc() == f.src_desc() ? inner_x : filled(g.src_desc())},
        {DNNL_ARG_DIFF_DST, g.diff_dst_desc() == d.diff_dst_desc() ? data_arguments_[DNNL_ARG_DIFF_DST]
                                                                   : filled(g.diff_dst_desc())},
        {DNNL_ARG_DIFF_WEIGHTS, filled(g.diff_weights_desc())},
        {DNNL_ARG_DIFF_BIAS, b}};
    outer_x_ = filled(row_major(x)), outer_y_ = filled(row_major(y));
  }

  void run() {
    move(outer_x_, forward_arguments_[DNNL_ARG_SRC]);
    forward_.execute(stream_, forward_arguments_);
    move(forward_arguments_[DNNL_ARG_DST], outer_y_);
    if (backward_) {
      move(outer_y_, data_arguments_[DNNL_ARG_DIFF_DST]);
      data_.execute(stream_, data_arguments_);
      move(data_arguments_[DNNL_ARG_DIFF_SRC], outer_x_);
      weights_.execute(stream_, weights_arguments_);
    }
    stream_.wait();
  }

 private:
  static dnnl::memory::desc any(const dnnl::memory::dims& dims) {
    return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::any};
  }
  static dnnl::memory::desc row_major(const dnnl::memory::dims& dims) {
    return {dims, dnnl::memory::data_type::f32, dnnl::memory::format_tag::nchw};
  }
  [[nodiscard]] dnnl::memory filled(const dnnl::memory::desc& desc) const {
    dnnl::memory memory(desc, engine_);
    auto* const values = static_cast<float*>(memory.get_data_handle());
    for (std::size_t i = 0; i < desc.get_size() / sizeof(float); ++i)
      values[i] = static_cast<float>(i * 7919 % 1000) / 500 - 1;
    return memory;
  }
  void move(dnnl::memory& from, dnnl::memory& to) {
    if (reorders_) dnnl::reorder(from, to).execute(stream_, from, to);
  }

  bool reorders_, backward_;
  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  dnnl::primitive forward_, data_, weights_;
  std::unordered_map<int, dnnl::memory> forward_arguments_, data_arguments_, weights_arguments_;
  dnnl::memory outer_x_, outer_y_;
};

inline void add_convolutions(Worker& worker) {
  for (const Convolution& c : kConvolutions) {
    for (const bool reorders : {true, false}) {
      for (const bool backward : {false, true}) {
        const std::string name =
            std::string(c.name) + (reorders ? "" : "_blocked") + (backward ? "_backward" : "");
        worker.add(name + "/f32", [=]() -> Body {
          return [convolution = std::make_shared<BareConvolution>(c, reorders, backward)] {
            convolution->run();
          };
        });
      }
    }
  }
}

}  // namespace bench
