// Names of callbacks, and amp's algorithms as callbacks.
#include "mezzo/train/callback.h"

namespace mezzo::train {

namespace {

/// An algorithm of amp, which knows the first three events.
class AmpCallback final : public Callback {
 public:
  explicit AmpCallback(std::shared_ptr<amp::Algorithm> algorithm) : algorithm_(std::move(algorithm)) {}
  [[nodiscard]] std::string name() const override { return algorithm_->name(); }
  [[nodiscard]] bool match(Event event) const override {
    const auto of_amp = amp_event(event);
    return of_amp && algorithm_->match(*of_amp);
  }
  void run(Event event, State& state) override {
    amp::TrainingState amp_state{.model = state.model, .precision = state.precision, .optimizers = {}};
    if (state.optimizer != nullptr) amp_state.optimizers.push_back(state.optimizer);
    const auto report = algorithm_->apply(*amp_event(event), amp_state);
    state.logger().text(name(), nn::surgery::to_string(report));
  }

 private:
  static std::optional<amp::Event> amp_event(Event event) {
    switch (event) {
      case Event::init:
        return amp::Event::init;
      case Event::before_load:
        return amp::Event::before_load;
      case Event::after_load:
        return amp::Event::after_load;
      default:
        return std::nullopt;
    }
  }

  std::shared_ptr<amp::Algorithm> algorithm_;
};

}  // namespace

std::string Callback::identity() const { return name(); }

std::string Callback::name() const { return nn::detail::type_text(typeid(*this)); }

std::string detail::FunctionCallback::name() const { return "on(" + std::string(to_string(event_)) + ")"; }

std::shared_ptr<Callback> AnyCallback::adapted(std::shared_ptr<amp::Algorithm> algorithm) {
  return algorithm == nullptr ? nullptr : std::make_shared<AmpCallback>(std::move(algorithm));
}

}  // namespace mezzo::train
