// The parallel loop of an optimizer's step, for all optimizers.
#include "mezzo/kernels/optim/cpu_update.h"

#include <algorithm>

#include "mezzo/kernels/cpu/tile.h"
#include "mezzo/kernels/optim/cpu_arrays.h"
#include "mezzo/kernels/optim/cpu_pieces.h"
#include "mezzo/kernels/optim/moments_8bit.h"
#include "mezzo/kernels/optim/narrow_parameter.h"

namespace mezzo::kernels::cpu::update_detail {

namespace {

/// The operands of one parameter, laid out for tiles over its shape.
struct Operands {
  explicit Operands(const ParameterUpdate& update)
      : value(of(update.value, update)),
        gradient(of(update.gradient, update)),
        state{of(update.state[0], update), of(update.state[1], update), of(update.state[2], update)},
        copies{of(update.copies[0], update), of(update.copies[1], update), of(update.copies[2], update)} {}
  TileOperand value, gradient;
  std::array<TileOperand, 3> state, copies;

 private:
  static TileOperand of(const View& view, const ParameterUpdate& update) {
    return view.data == nullptr ? TileOperand(view) : TileOperand(view, update.value.shape, view.strides);
  }
};

/// The place of a split master's remainder among the copies.
constexpr std::size_t kRemainder = 2;

/// Memory of the tiles of one thread, wide enough for every compute type.
struct Buffers {
  TileBuffer<double> value, gradient;
  std::array<TileBuffer<double>, 3> states;
  TileBuffer<std::uint16_t> parameters;
  TileBuffer<std::int16_t> remainders;
  TileBuffer<std::uint8_t> codes;
};

struct JoinTile {
  static void run(const std::uint16_t* parameters, const std::int16_t* remainders, float* values,
                  std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) values[i] = SplitMaster{parameters[i], remainders[i]}.joined();
  }
};
struct SplitTile {
  static void run(const float* values, std::uint16_t* parameters, std::int16_t* remainders, std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) {
      const SplitMaster split = SplitMaster::of(values[i]);
      parameters[i] = split.parameter;
      remainders[i] = split.remainder;
    }
  }
};

template <class S>
struct RandomRoundTile {
  static void run(const float* values, const std::uint16_t* random, std::uint16_t* parameters,
                  std::int64_t n) {
    MEZZO_INDEPENDENT_LOOP
    for (std::int64_t i = 0; i < n; ++i) parameters[i] = rounded_at_random<S>(values[i], random[i]).bits;
  }
};

/// Rounds a tile that begins with `element` of its parameter.
void round_at_random(const float* values, std::uint16_t* parameters, std::int64_t n, DType dtype,
                     RoundingBits bits, std::int64_t element) {
  constexpr std::int64_t kBlocks = kTile / RoundingBits::kBlock + 1 + kMorePhiloxBlocks;
  alignas(64) std::uint16_t random[RoundingBits::kBlock * kBlocks];
  const std::int64_t skipped = element % RoundingBits::kBlock;
  philox_halves(bits.key(), static_cast<std::uint64_t>(element / RoundingBits::kBlock), bits.stream(),
                (skipped + n + RoundingBits::kBlock - 1) / RoundingBits::kBlock, random);
  if (dtype == DType::bf16)
    run_isa<RandomRoundTile<BFloat16>>(values, random + skipped, parameters, n);
  else
    run_isa<RandomRoundTile<Half>>(values, random + skipped, parameters, n);
}

/// One chunk's functor of an algorithm in one compute type. Parameters mostly are at one step, so the powers
/// in F::at are taken once.
class ChunkFunctor {
 public:
  explicit ChunkFunctor(const UpdateLoop& loop) : loop_(loop) {}
  const FunctorRoom& at(const ParameterUpdate& update, const Rates& rates) {
    const double carried = update.carried != nullptr ? *update.carried : 0;
    if (*update.step != step_ || carried != carried_) {
      loop_.make(loop_.rule, update, rates, functor_);
      step_ = *update.step;
      carried_ = carried;
    }
    return functor_;
  }

 private:
  const UpdateLoop& loop_;
  FunctorRoom functor_{};
  std::int64_t step_ = -1;  // none yet
  double carried_ = 0;
};

/// Updates one tile after the other of a parameter.
struct Piece {
  const ParameterUpdate& update;
  const UpdateLoop& loop;
  const FunctorRoom& functor;
  UnscaleFn unscale;
  bool write_gradient;
  Buffers& buffers;
  Operands operands{update};

  /// Elements [at, at + n). `next`: how many come then, none if it is below 1.
  void tile(std::int64_t at, std::int64_t n, std::int64_t next) {
    TileArrays arrays{};
    for (std::size_t s = 0; s < loop.states; ++s) {
      arrays.in[s] = update.scales[s] != nullptr
                         ? moments(s, at, n)
                         : operands.state[s].read(at, n, loop.type, buffers.states[s].values);
      arrays.out[s] = operands.state[s].target(at, loop.type, buffers.states[s].values);
    }
    arrays.p = update.is_split ? joined(at, n) : operands.value.read(at, n, loop.type, buffers.value.values);
    arrays.g = operands.gradient.read(at, n, loop.type, buffers.gradient.values);
    arrays.p_out = operands.value.target(at, loop.type, buffers.value.values);  // a buffer for 16 bits
    if (write_gradient) arrays.unscaled = operands.gradient.target(at, loop.type, buffers.gradient.values);
    loop.tile(functor, arrays, n, unscale);
    // While codes are made, memory has nothing to do.
    if (update.scales[0] != nullptr) {
      operands.value.prefetch(at + n, next);
      operands.gradient.prefetch(at + n, next);
      for (std::size_t s = 0; s < loop.states; ++s) operands.state[s].prefetch(at + n, next);
    }
    for (std::size_t s = 0; s < loop.states; ++s) {
      if (update.scales[s] != nullptr)
        write_moments(s, at, n);
      else
        operands.state[s].finish(at, n, loop.type, buffers.states[s].values);
    }
    write_values(at, n, arrays.p_out);
    if (write_gradient) operands.gradient.finish(at, n, loop.type, buffers.gradient.values);
  }

 private:
  /// The f32 masters of a tile, of their two halves.
  [[nodiscard]] const float* joined(std::int64_t at, std::int64_t n) const {
    const void* const parameters = operands.value.read(at, n, DType::bf16, buffers.parameters.values);
    const void* const remainders =
        operands.copies[kRemainder].read(at, n, DType::i16, buffers.remainders.values);
    auto* const values = reinterpret_cast<float*>(buffers.value.values);
    run_isa<JoinTile>(static_cast<const std::uint16_t*>(parameters),
                      static_cast<const std::int16_t*>(remainders), values, n);
    return values;
  }
  [[nodiscard]] bool has_sign(std::size_t s) const { return (update.nonnegative >> s & 1U) == 0; }
  [[nodiscard]] const float* moments(std::size_t s, std::int64_t at, std::int64_t n) const {
    const void* const codes = operands.state[s].read(at, n, DType::u8, buffers.codes.values);
    auto* const values = reinterpret_cast<float*>(buffers.states[s].values);
    read_moments(static_cast<const std::uint8_t*>(codes), update.scales[s] + at / Moments8::kBlock,
                 has_sign(s), values, n);
    return values;
  }
  void write_moments(std::size_t s, std::int64_t at, std::int64_t n) const {
    void* const codes = operands.state[s].target(at, DType::u8, buffers.codes.values);
    cpu::write_moments(reinterpret_cast<float*>(buffers.states[s].values), has_sign(s),
                       static_cast<std::uint8_t*>(codes), update.scales[s] + at / Moments8::kBlock, n);
    operands.state[s].finish(at, n, DType::u8, buffers.codes.values);
  }
  /// Stores a tile's new values and their copies.
  void write_values(std::int64_t at, std::int64_t n, const void* values) const {
    DType type = loop.type;
    if (update.rounds_at_random) {
      type = update.value.dtype;
      void* const parameters = operands.value.target(at, type, buffers.parameters.values);
      round_at_random(static_cast<const float*>(values), static_cast<std::uint16_t*>(parameters), n, type,
                      {update.number, *update.step}, update.first_element + at);
      operands.value.finish(at, n, type, buffers.parameters.values);
      values = parameters;
    } else if (update.is_split) {
      write_split(at, n, static_cast<const float*>(values));
    } else {
      operands.value.finish(at, n, type, values);
    }
    for (std::size_t c = 0; c < (update.is_split ? kRemainder : update.copies.size()); ++c) {
      if (update.copies[c].data != nullptr) operands.copies[c].write(at, n, type, values);
    }
  }
  void write_split(std::int64_t at, std::int64_t n, const float* values) const {
    void* const parameters = operands.value.target(at, DType::bf16, buffers.parameters.values);
    void* const remainders = operands.copies[kRemainder].target(at, DType::i16, buffers.remainders.values);
    run_isa<SplitTile>(values, static_cast<std::uint16_t*>(parameters),
                       static_cast<std::int16_t*>(remainders), n);
    operands.value.finish(at, n, DType::bf16, buffers.parameters.values);
    operands.copies[kRemainder].finish(at, n, DType::i16, buffers.remainders.values);
  }
};

}  // namespace

void run_updates(std::span<const ParameterUpdate> updates, const std::array<UpdateLoop, 2>& loops,
                 const UpdateControl& control) {
  if (control.record != nullptr && control.record->found_inf != 0) return;
  const bool unscales = control.unscale && control.record != nullptr && control.record->inv_scale != 1.0F;
  const UnscaleFn unscale{unscales ? control.record->inv_scale : 1.0F};
  const auto size = [&](std::size_t i) { return layout::numel(updates[i].value.shape); };
  const auto is_f64 = [](const ParameterUpdate& update) { return update.value.dtype == DType::f64; };
  const bool has_codes = std::any_of(updates.begin(), updates.end(), [](const ParameterUpdate& update) {
    return update.scales[0] != nullptr;
  });
  const Pieces pieces(updates.size(), size, has_codes ? Moments8::kBlock : 64);
  pieces.run([&](std::int64_t chunk) {
    Buffers buffers;
    ChunkFunctor functors[2]{ChunkFunctor(loops[0]), ChunkFunctor(loops[1])};
    pieces.each(chunk, size, [&](std::size_t i, std::int64_t begin, std::int64_t end) {
      const ParameterUpdate& update = updates[i];
      const std::size_t type = is_f64(update) ? 1 : 0;
      Piece piece{update,
                  loops[type],
                  functors[type].at(update, *control.rates),
                  unscale,
                  unscales && control.write_unscaled,
                  buffers};
      for (std::int64_t at = begin; at < end; at += kTile)
        piece.tile(at, std::min(kTile, end - at), std::min(kTile, end - at - kTile));
    });
  });
  // Behind the loop: all pieces of a parameter see the same count.
  for (const ParameterUpdate& update : updates) {
    const UpdateLoop& loop = loops[is_f64(update) ? 1 : 0];
    loop.advance(loop.rule, update, *control.rates);
  }
}

}  // namespace mezzo::kernels::cpu::update_detail
