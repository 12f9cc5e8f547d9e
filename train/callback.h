// Callbacks: objects that a trainer calls at the events of a training. One of a user's own:
//   struct StopBelow final : train::Callback {
//     bool match(train::Event event) const override { return event == train::Event::batch_end; }
//     void run(train::Event, train::State& state) override {
//       if (state.loss.item() < 0.1) state.stop_training();
//     }
//   };
// or, of one event, train::on(Event::epoch_end, [](train::State& state) { ... }).
#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <utility>

#include "mezzo/train/event.h"
#include "mezzo/train/state.h"

namespace mezzo::train {

/// Called by a trainer at the events that it matches. An exception ends the training and reaches the caller
/// of fit() as a CallbackError.
class Callback {
 public:
  virtual ~Callback() = default;
  /// For messages. Default: the name of the class.
  [[nodiscard]] virtual std::string name() const;
  /// Whether it is to be run at this event. Asked once per event when the trainer is made.
  [[nodiscard]] virtual bool match(Event event) const = 0;
  virtual void run(Event event, State& state) = 0;
  /// The parts of its state that a checkpoint has to hold, by reference: called once, after Event::init.
  /// Names need not differ from other callbacks' names.
  [[nodiscard]] virtual Parts parts() { return {}; }
  /// A text that tells it from others of its class in a checkpoint, such as its options: so callbacks may be
  /// added, left out and listed in another order when a training is resumed. Default: name(); several with
  /// the same text are numbered.
  [[nodiscard]] virtual std::string identity() const;
};

/// A callback that changes the training and not only watches it. Algorithms run before callbacks.
using Algorithm = Callback;

/// A callback has thrown. Its text holds the cause's; std::rethrow_if_nested throws the cause itself.
class CallbackError : public Error {
  using Error::Error;
};

/// A callback given as an expression, which moves into the trainer; or one that the program keeps a pointer
/// to.
class AnyCallback {
 public:
  template <std::derived_from<Callback> C>
  AnyCallback(C callback) : callback_(std::make_shared<C>(std::move(callback))) {}
  template <std::derived_from<Callback> C>
  AnyCallback(std::shared_ptr<C> callback) : callback_(std::move(callback)) {}

  [[nodiscard]] const std::shared_ptr<Callback>& callback() const noexcept { return callback_; }

 private:
  std::shared_ptr<Callback> callback_;
};

namespace detail {

/// A callback of the events that it names.
template <Event... kAt>
class CallbackAt : public Callback {
 public:
  [[nodiscard]] bool match(Event event) const override { return ((event == kAt) || ...); }
};

class FunctionCallback final : public Callback {
 public:
  FunctionCallback(Event event, mezzo::detail::Function<void(State&)> f) : event_(event), f_(std::move(f)) {}
  [[nodiscard]] std::string name() const override;
  [[nodiscard]] bool match(Event event) const override { return event == event_; }
  void run(Event /*event*/, State& state) override { f_(state); }

 private:
  Event event_;
  mezzo::detail::Function<void(State&)> f_;
};

}  // namespace detail

/// A callback of one function and one event.
template <std::invocable<State&> F>
[[nodiscard]] AnyCallback on(Event event, F f) {
  return detail::FunctionCallback(event, std::move(f));
}

}  // namespace mezzo::train
