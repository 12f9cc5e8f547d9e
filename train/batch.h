// Batches and loaders of any type behind one face, and the parts that a batch is cut into.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include "mezzo/data/loader.h"
#include "mezzo/train/checkpoint.h"

namespace mezzo::train {

namespace detail {

/// Throws: ValueError: a batch of type `is` where `wanted` was asked for.
[[noreturn]] void refuse_batch_type(std::string_view op, const std::type_info& wanted,
                                    const std::type_info& is);

/// The operations on a batch of any type: a table of functions per type.
struct BatchType {
  const std::type_info& type;
  bool knows_tensors;
  void (*visit)(void* batch, const data::detail::TensorVisitor& visitor);
  std::shared_ptr<void> (*copy)(const void* batch);
};
template <class B>
const BatchType& batch_type() {
  static const BatchType type{typeid(B), data::detail::BatchTensors<B>::kKnown,
                              [](void* batch, const data::detail::TensorVisitor& visitor) {
                                data::detail::BatchTensors<B>::visit(*static_cast<B*>(batch), visitor);
                              },
                              [](const void* batch) -> std::shared_ptr<void> {
                                return std::make_shared<B>(*static_cast<const B*>(batch));
                              }};
  return type;
}

}  // namespace detail

/// A batch whose type the program knows: `state.batch.get<data::Example>()`. May be empty. Copies refer to
/// the same batch.
class AnyBatch {
 public:
  AnyBatch() = default;
  template <class B>
  requires(!std::same_as<std::remove_cvref_t<B>, AnyBatch>) explicit AnyBatch(B batch)
      : type_(&detail::batch_type<B>()), batch_(std::make_shared<B>(std::move(batch))) {}

  [[nodiscard]] bool defined() const noexcept { return batch_ != nullptr; }
  template <class B>
  [[nodiscard]] bool is() const noexcept {
    return defined() && type_->type == typeid(B);
  }
  /// Throws: ValueError for a batch of another type, and an empty one.
  template <class B>
  [[nodiscard]] B& get() const {
    if (!is<B>()) detail::refuse_batch_type("AnyBatch::get", typeid(B), type());
    return *static_cast<B*>(batch_.get());
  }
  /// void for an empty one.
  [[nodiscard]] const std::type_info& type() const noexcept { return defined() ? type_->type : typeid(void); }
  /// Calls f with each tensor of the batch. Of types that a loader does not know (data/collate.h) with none.
  void visit(const data::detail::TensorVisitor& f) const;
  /// Samples: the first dim of its tensors. Throws: ShapeError when they differ, ValueError when there are
  /// none.
  [[nodiscard]] std::int64_t samples() const;
  /// samples(), or std::nullopt where there are no tensors.
  [[nodiscard]] std::optional<std::int64_t> find_samples() const;
  /// Samples begin, begin + 1, ..., begin + length - 1, as views. Throws: as samples(), and IndexError.
  [[nodiscard]] AnyBatch narrow(std::int64_t begin, std::int64_t length) const;
  /// Another batch with the same tensors.
  [[nodiscard]] AnyBatch copy() const;
  /// With its tensors on a device: itself where they are there, else a copy.
  [[nodiscard]] AnyBatch to(Device device) const;

  /// A batch that somebody else holds as long as this lives.
  AnyBatch(const detail::BatchType& type, std::shared_ptr<void> batch) noexcept
      : type_(&type), batch_(std::move(batch)) {}

 private:
  const detail::BatchType* type_ = nullptr;
  std::shared_ptr<void> batch_;
};

/// The batch in parts of `size` samples, of which the last may be smaller, as views; the batch itself where
/// it has no more. As a trainer's option `microbatch` does. Throws: ValueError for a size below 1, and as
/// AnyBatch::narrow.
[[nodiscard]] std::vector<AnyBatch> microbatches(const AnyBatch& batch, std::int64_t size);

namespace detail {

template <class R>
concept RangeOfBatches = requires(R& range) {
  *range.begin();
  range.begin() == range.end();
};

/// A source of batches, epoch after epoch.
class LoaderFace {
 public:
  virtual ~LoaderFace() = default;
  [[nodiscard]] virtual const BatchType& batch_type() const = 0;
  /// Begins an epoch, or goes on with the epoch that was loaded.
  virtual void begin() = 0;
  /// The next batch of the epoch, valid until the next call; empty at its end, and before begin().
  [[nodiscard]] virtual AnyBatch next() = 0;
  /// Leaves the epoch.
  virtual void end() = 0;
  /// Batches per epoch; none where nobody knows.
  [[nodiscard]] virtual std::optional<std::int64_t> size() const = 0;
  /// The loader, if it has a place to be saved; else nullptr.
  [[nodiscard]] virtual data::detail::LoaderBase* base() = 0;
};

template <class R>
class RangeFace final : public LoaderFace {
 public:
  using Place = decltype(std::declval<R&>().begin());
  using Batch = std::remove_cvref_t<decltype(*std::declval<Place&>())>;
  explicit RangeFace(std::shared_ptr<R> range) : range_(std::move(range)) {}
  [[nodiscard]] const BatchType& batch_type() const override { return detail::batch_type<Batch>(); }
  void begin() override {
    place_.reset();
    place_.emplace(range_->begin());
    is_first_ = true;
  }
  [[nodiscard]] AnyBatch next() override {
    if (!place_) return {};
    if (!is_first_) ++*place_;
    is_first_ = false;
    if (*place_ == range_->end()) {
      place_.reset();
      return {};
    }
    const Batch& batch = **place_;
    return {this->batch_type(), std::shared_ptr<void>(range_, const_cast<Batch*>(&batch))};
  }
  void end() override { place_.reset(); }
  [[nodiscard]] std::optional<std::int64_t> size() const override {
    if constexpr (std::derived_from<R, data::detail::LoaderBase>)
      return range_->find_size();
    else if constexpr (requires { range_->size(); })
      return static_cast<std::int64_t>(range_->size());
    else
      return std::nullopt;
  }
  [[nodiscard]] data::detail::LoaderBase* base() override {
    if constexpr (std::derived_from<R, data::detail::LoaderBase>)
      return range_.get();
    else
      return nullptr;
  }

 private:
  std::shared_ptr<R> range_;
  std::optional<Place> place_;
  bool is_first_ = false;
};

}  // namespace detail

/// A data::DataLoader, or any other range of batches (a vector of them), that a program keeps or gives away.
class AnyLoader {
 public:
  AnyLoader() = default;
  /// Refers to `range`, which must live as long.
  template <detail::RangeOfBatches R>
  AnyLoader(R& range) : AnyLoader(std::shared_ptr<R>(std::shared_ptr<void>(), &range)) {}
  /// Keeps a range that is given away, such as a vector.
  template <detail::RangeOfBatches R>
  requires(!std::is_reference_v<R> && std::move_constructible<R>) AnyLoader(R&& range)
      : AnyLoader(std::make_shared<R>(std::move(range))) {}
  /// A DataLoader cannot be moved: keep it in a variable as long, or give a std::make_shared of it.
  template <detail::RangeOfBatches R>
  requires(!std::is_reference_v<R> && !std::move_constructible<R>) AnyLoader(R&& range)
  = delete;
  template <detail::RangeOfBatches R>
  AnyLoader(std::shared_ptr<R> range)
      : face_(range == nullptr ? nullptr : std::make_shared<detail::RangeFace<R>>(std::move(range))) {}

  [[nodiscard]] bool defined() const noexcept { return face_ != nullptr; }
  [[nodiscard]] detail::LoaderFace* operator->() const noexcept { return face_.get(); }
  [[nodiscard]] detail::LoaderFace& operator*() const noexcept { return *face_; }

 private:
  std::shared_ptr<detail::LoaderFace> face_;
};

}  // namespace mezzo::train
