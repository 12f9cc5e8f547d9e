// What works on sequences: the transformer, recurrent layers with packed sequences and projections,
// positions, the cache of keys and values, and sampling; with bad sizes, masks, lists and order of calls.
#include <gtest/gtest.h>

#include "misuse/members.h"
#include "misuse/misuse.h"

namespace mezzo::misuse {

using namespace nn;

// TransformerDecoderLayer's options are TransformerEncoderLayerOptions, under the name
// TransformerDecoderLayerOptions too.
MISUSE_OPTIONS(TransformerOptions, &TransformerOptions::num_encoder_layers,
               &TransformerOptions::num_decoder_layers, &TransformerOptions::dim_feedforward,
               &TransformerOptions::dropout, &TransformerOptions::layer_norm_eps,
               &TransformerOptions::batch_first, &TransformerOptions::norm_first, &TransformerOptions::bias,
               &TransformerOptions::dtype, &TransformerOptions::device);
MISUSE_OPTIONS(TransformerDecoderMasks, &TransformerDecoderMasks::tgt_mask,
               &TransformerDecoderMasks::memory_mask, &TransformerDecoderMasks::tgt_key_padding_mask,
               &TransformerDecoderMasks::memory_key_padding_mask, &TransformerDecoderMasks::tgt_is_causal,
               &TransformerDecoderMasks::memory_is_causal);
MISUSE_OPTIONS(EncoderDecoderMasks, &EncoderDecoderMasks::src_mask, &EncoderDecoderMasks::tgt_mask,
               &EncoderDecoderMasks::memory_mask, &EncoderDecoderMasks::src_key_padding_mask,
               &EncoderDecoderMasks::tgt_key_padding_mask, &EncoderDecoderMasks::memory_key_padding_mask,
               &EncoderDecoderMasks::src_is_causal, &EncoderDecoderMasks::tgt_is_causal,
               &EncoderDecoderMasks::memory_is_causal);
MISUSE_OPTIONS(PackOptions, &PackOptions::batch_first, &PackOptions::enforce_sorted);
MISUSE_OPTIONS(PadPackedOptions, &PadPackedOptions::batch_first, &PadPackedOptions::padding_value,
               &PadPackedOptions::total_length);
MISUSE_OPTIONS(PadSequenceOptions, &PadSequenceOptions::batch_first, &PadSequenceOptions::padding_value,
               &PadSequenceOptions::padding_side);
MISUSE_OPTIONS(PackedSequence, &PackedSequence::data, &PackedSequence::batch_sizes,
               &PackedSequence::sorted_indices, &PackedSequence::unsorted_indices);
MISUSE_OPTIONS(RotaryEmbeddingOptions, &RotaryEmbeddingOptions::base, &RotaryEmbeddingOptions::interleaved);
MISUSE_OPTIONS(AlibiOptions, &AlibiOptions::is_causal, &AlibiOptions::dtype, &AlibiOptions::device);
MISUSE_OPTIONS(KeyValueCacheOptions, &KeyValueCacheOptions::value_size, &KeyValueCacheOptions::dtype,
               &KeyValueCacheOptions::device);
MISUSE_OPTIONS(SampleOptions, &SampleOptions::temperature, &SampleOptions::top_k, &SampleOptions::top_p);

namespace {

using Int = std::int64_t;

/// Calls `use` with arguments of types A, drawn.
template <class... A, class F>
Function drawn(const char* name, const F& use) {
  return {name, [use](Draw& draw) {
            WithArguments<A...>{[&](auto&... arguments) { use(draw, arguments...); }, kept<A>(draw)...};
          }};
}

/// Good and bad lengths for a batch of two with three steps.
std::vector<Int> lengths(Draw& draw) {
  return draw.of<std::vector<Int>>({{3, 2}, {2, 3}, {3, 3}, {}, {1}, {0, 1}, {-1, 2}, {4, 1}, {1, 1, 1}});
}

TEST(Misuse, OfTransformers) {
  sweep({drawn<Int, Int, TransformerDecoderLayerOptions, TransformerDecoderMasks>(
             "TransformerDecoderLayer",
             [](Draw& draw, Int d_model, Int nhead, const auto& options, const auto& masks) {
               TransformerDecoderLayer layer(d_model, nhead, options);
               use_members(layer, draw);
               static_cast<void>(layer(draw_tensor(draw), draw_tensor(draw), masks));
             }),
         drawn<Int, TransformerDecoderMasks>(
             "TransformerDecoder",
             [](Draw& draw, Int layers, const auto& masks) {
               TransformerDecoder decoder(TransformerDecoderLayer(2, 1, {.dim_feedforward = 2}), layers);
               use_members(decoder, draw);
               static_cast<void>(decoder(draw_tensor(draw), draw_tensor(draw), masks));
             }),
         drawn<Int, Int, TransformerOptions, EncoderDecoderMasks>(
             "Transformer",
             [](Draw& draw, Int d_model, Int nhead, TransformerOptions options, const auto& masks) {
               options.num_encoder_layers = std::min<Int>(options.num_encoder_layers, 2);
               options.num_decoder_layers = std::min<Int>(options.num_decoder_layers, 2);
               Transformer net(d_model, nhead, options);
               use_members(net, draw);
               static_cast<void>(net(draw_tensor(draw), draw_tensor(draw), masks));
             }),
         drawn<EncoderDecoderMasks>(
             "Transformer of fitting inputs",
             [](Draw&, const auto& masks) {
               Transformer net(2, 1,
                               {.num_encoder_layers = 1, .num_decoder_layers = 1, .dim_feedforward = 2});
               static_cast<void>(net(ones({3, 2, 2}), ones({2, 2, 2}), masks));
             }),
         drawn<Int, TensorOptions>("generate_square_subsequent_mask",
                                   [](Draw&, Int size, const auto& options) {
                                     static_cast<void>(
                                         Transformer::generate_square_subsequent_mask(size, options));
                                   })},
        80);
  expect_sound("TransformerDecoder(nullptr)", [] { TransformerDecoder(nullptr, 2); });
}

TEST(Misuse, OfAttentionWithAddedKeys) {
  sweep({drawn<bool, bool, Tensor>("MultiheadAttention, added keys",
                                   [](Draw& draw, bool bias, bool zero, const Tensor& mask) {
                                     MultiheadAttention layer(2, 1,
                                                              {.add_bias_kv = bias, .add_zero_attn = zero});
                                     const Tensor x = ones({3, 2, 2});
                                     static_cast<void>(layer(x, x, x,
                                                             {.key_padding_mask = draw_tensor(draw),
                                                              .need_weights = draw.once_in(2),
                                                              .attn_mask = mask,
                                                              .is_causal = draw.once_in(2)}));
                                   }),
         drawn<Tensor, Tensor, Tensor, bool>(
             "attention of groups",
             [](Draw&, const Tensor& q, const Tensor& k, const Tensor& v, bool causal) {
               static_cast<void>(
                   scaled_dot_product_attention(q, k, v, {.is_causal = causal, .enable_gqa = true}));
             })},
        80);
}

TEST(Misuse, OfPackedSequences) {
  sweep(
      {drawn<Tensor, PackOptions>("pack_padded_sequence",
                                  [](Draw& draw, const Tensor& x, const auto& options) {
                                    static_cast<void>(pack_padded_sequence(x, lengths(draw), options));
                                  }),
       drawn<std::vector<Tensor>, bool>("pack_sequence",
                                        [](Draw&, const auto& sequences, bool enforce_sorted) {
                                          static_cast<void>(pack_sequence(sequences, enforce_sorted));
                                        }),
       drawn<std::vector<Tensor>, PadSequenceOptions>("pad_sequence",
                                                      [](Draw&, const auto& sequences, const auto& options) {
                                                        static_cast<void>(pad_sequence(sequences, options));
                                                      }),
       drawn<PackedSequence, PadPackedOptions>("pad_packed_sequence",
                                               [](Draw&, const auto& sequence, const auto& options) {
                                                 static_cast<void>(sequence.num_sequences());
                                                 const PaddedSequence padded =
                                                     pad_packed_sequence(sequence, options);
                                                 static_cast<void>(padded.lengths == sequence.lengths());
                                               }),
       drawn<PackedSequence>(
           "unpack_sequence",
           [](Draw&, const auto& sequence) { static_cast<void>(unpack_sequence(sequence)); }),
       drawn<PackedSequence>("PackedSequence::lengths",
                             [](Draw&, const auto& sequence) { static_cast<void>(sequence.lengths()); }),
       drawn<Tensor, bool>("unpad_sequence",
                           [](Draw& draw, const Tensor& x, bool batch_first) {
                             static_cast<void>(unpad_sequence(x, lengths(draw), batch_first));
                           })},
      120);
}

TEST(Misuse, OfRecurrentLayersOverPackedSequences) {
  const auto run = [](auto& layer, Draw& draw, const PackedSequence& sequence) {
    static_cast<void>(layer.output_size());
    if constexpr (requires { layer(sequence, Tensor()); }) {
      const PackedRecurrentOutput y = layer(sequence, draw.once_in(2) ? draw_tensor(draw) : Tensor());
      static_cast<void>(y.h_n.shape());
    } else {
      const PackedLSTMOutput y =
          layer(sequence, draw.once_in(2) ? LstmState{draw_tensor(draw), draw_tensor(draw)} : LstmState{});
      static_cast<void>(y.state.c.shape());
    }
  };
  const auto packed = [](Draw& draw, const PackedSequence& other) {
    return draw.once_in(2) ? other
                           : pack_padded_sequence(ones({3, 2, 2}), lengths(draw), {.enforce_sorted = false});
  };
  sweep({drawn<RecurrentOptions, PackedSequence>("RNN, packed",
                                                 [=](Draw& draw, const auto& options, const auto& other) {
                                                   RNN rnn(2, 2, options);
                                                   run(rnn, draw, packed(draw, other));
                                                 }),
         drawn<RecurrentOptions, PackedSequence>("GRU, packed",
                                                 [=](Draw& draw, const auto& options, const auto& other) {
                                                   GRU gru(2, 2, options);
                                                   run(gru, draw, packed(draw, other));
                                                 }),
         drawn<RecurrentOptions, Int, PackedSequence>(
             "LSTM, packed and projected",
             [=](Draw& draw, RecurrentOptions options, Int proj_size, const auto& other) {
               options.proj_size = proj_size;
               LSTM lstm(2, 3, options);
               run(lstm, draw, packed(draw, other));
             })},
        80);
}

TEST(Misuse, OfPositions) {
  sweep({drawn<Int, RotaryEmbeddingOptions, Tensor, Int>(
             "RotaryEmbedding",
             [](Draw& draw, Int dim, const auto& options, const Tensor& x, Int offset) {
               RotaryEmbedding rotary(dim, options);
               use_members(rotary, draw);
               static_cast<void>(rotary.dim());
               static_cast<void>(rotary(x, offset));
             }),
         drawn<Tensor, Tensor, DType>("RotaryEmbedding::tables",
                                      [](Draw&, const Tensor& x, const Tensor& positions, DType dtype) {
                                        RotaryEmbedding rotary(2);
                                        const RotaryTables tables = rotary.tables(positions, dtype);
                                        static_cast<void>(apply_rotary(x, tables.cos, tables.sin));
                                        static_cast<void>(rotary(x, positions));
                                      }),
         drawn<Int, TensorOptions>(
             "alibi_slopes",
             [](Draw&, Int heads, const auto& options) { static_cast<void>(alibi_slopes(heads, options)); }),
         drawn<Int, Int, Int, AlibiOptions>("alibi_bias",
                                            [](Draw&, Int heads, Int queries, Int keys, const auto& options) {
                                              static_cast<void>(alibi_bias(heads, queries, keys, options));
                                            })},
        120);
}

TEST(Misuse, OfTheCacheOfKeysAndValues) {
  sweep({drawn<Int, Int, Int, KeyValueCacheOptions>(
             "KeyValueCache",
             [](Draw& draw, Int batch, Int max_length, Int size, const auto& options) {
               KeyValueCache cache(batch, 1, max_length, size, options);
               static_cast<void>(cache.append(draw_tensor(draw), draw_tensor(draw)));
             }),
         drawn<Tensor, Tensor, Int>("KeyValueCache::append",
                                    [](Draw& draw, const Tensor& k, const Tensor& v, Int length) {
                                      KeyValueCache cache(1, 1, 4, 2);
                                      const Tensor fitting = ones({1, 1, 2, 2});
                                      static_cast<void>(cache.append(fitting, fitting));
                                      if (draw.once_in(2)) cache.truncate(length);
                                      static_cast<void>(cache.causal_mask(length));
                                      const KeyValues all = cache.append(k, v);
                                      static_cast<void>(all.keys.is_same(cache.get().keys));
                                      static_cast<void>(cache.length() <= cache.max_length());
                                    }),
         drawn<Tensor, SampleOptions>("sample_logits",
                                      [](Draw&, const Tensor& logits, const auto& options) {
                                        static_cast<void>(sample_logits(logits, options));
                                      }),
         drawn<Tensor, Int>("top_k_logits", [](Draw&, const Tensor& logits,
                                               Int k) { static_cast<void>(top_k_logits(logits, k)); }),
         drawn<Tensor, double>("top_p_logits", [](Draw&, const Tensor& logits,
                                                  double p) { static_cast<void>(top_p_logits(logits, p)); })},
        120);
  KeyValueCache cache(1, 1, 2, 2), moved = std::move(cache);
  for (KeyValueCache* const c : {&moved, &cache}) {  // NOLINT: what was moved from too
    expect_sound("KeyValueCache", [&] {
      static_cast<void>(c->get());
      static_cast<void>(c->causal_mask(0));
      static_cast<void>(c->max_length());
      static_cast<void>(c->append(ones({1, 1, 1, 2}), ones({1, 1, 1, 2})));
    });
  }
}

}  // namespace
}  // namespace mezzo::misuse
