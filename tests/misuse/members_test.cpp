// Members of all other public classes: with bad arguments, of objects that are empty, were moved from or are
// out of turn.
#include <gtest/gtest.h>

#include <limits>

#include "misuse/misuse.h"

namespace mezzo::misuse {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(Misuse, OfGeneratorsAndDevices) {
  Generator generator;
  for (const std::uint64_t huge : {std::uint64_t{0}, std::uint64_t{1} << 63U, ~std::uint64_t{0}}) {
    expect_sound("Generator::draw", [&] { static_cast<void>(generator.draw(huge)); });
    expect_sound("Generator::draw elsewhere",
                 [&] { static_cast<void>(generator.draw(huge, Device::cuda(99))); });
    expect_sound("Generator::set_state", [&] { generator.set_state({huge, huge}); });
    expect_sound("Generator::state", [&] { static_cast<void>(generator.state()); });
    expect_sound("Generator::manual_seed", [&] { generator.manual_seed(huge); });
    expect_sound("numbers behind the last", [&] {
      generator.set_state({0, ~std::uint64_t{0}});
      static_cast<void>(randn({7}, {}, generator));
    });
  }
  for (const char* text : {"", "cpu", "cpu:", "cpu:1", "cuda", "cuda:", "cuda:-1", "cuda:99999999999",
                           "cuda:1x", "gpu", "CUDA", "cuda: 1", "\n"})
    expect_sound("Device::parse", [&] { static_cast<void>(Device::parse(text)); });
  for (const Device device : {Device::best(), Device::cuda(99), Device::cuda(-1)}) {
    expect_sound("Device::is_cpu", [&] { static_cast<void>(device.is_cpu() || device.is_cuda()); });
    expect_sound("empty_cache", [&] { empty_cache(device); });
    expect_sound("memory_stats", [&] { static_cast<void>(memory_stats(device)); });
  }
}

TEST(Misuse, OfTensorHandles) {
  Tensor x = ones({2, 3}), there = std::move(x);
  for (const Tensor& tensor : {Tensor(), x, there, there.detach()}) {
    expect_sound("defined", [&] { static_cast<void>(tensor.defined()); });
    expect_sound("is_same", [&] { static_cast<void>(tensor.is_same(there) && there.is_same(tensor)); });
    expect_sound("impl", [&] { static_cast<void>(tensor.impl()); });
    expect_sound("ref", [&] { static_cast<void>(tensor.ref()); });
  }
}

TEST(Misuse, OfValues) {
  for (Value value : {Value(), Value(true), Value(1), Value(kNan), Value("text"), Value::list(1, "two"),
                      Value(Value::Map{{"a", 1}})}) {
    const Value moved = std::move(value);
    for (Value* const v : {const_cast<Value*>(&moved), &value}) {  // NOLINT: what was moved from too
      expect_sound("Value::kind", [&] { static_cast<void>(v->kind()); });
      expect_sound("Value::is_", [&] {
        static_cast<void>(v->is_null() || v->is_bool() || v->is_int() || v->is_double() || v->is_number() ||
                          v->is_string() || v->is_list() || v->is_map());
      });
      expect_sound("Value::contains", [&] { static_cast<void>(v->contains("a")); });
      expect_sound("Value::set", [&] { v->set("b", Value(2)); });
      expect_sound("Value::at", [&] { static_cast<void>(v->at("c")); });
      expect_sound("Value::duplicate_key", [&] {
        static_cast<void>(Value::duplicate_key({{"a", 1}, {"a", 2}}));
      });
      expect_sound("Value::to_string", [&] { static_cast<void>(v->to_string(1000)); });
    }
  }
}

TEST(Misuse, OfContainersOfModules) {
  nn::ModuleDict<nn::Layer> dict;
  for (const char* key : {"", "a.b", "a", "a", "\n", "parameters"})
    expect_sound("ModuleDict::insert", [&] { dict.insert(key, nn::make<nn::Linear>(2, 3)); });
  expect_sound("ModuleDict::insert of nothing", [&] { dict.insert("none", std::shared_ptr<nn::Linear>()); });
  expect_sound("ModuleDict::contains", [&] { static_cast<void>(dict.contains("a") || dict.contains("")); });
  expect_sound("ModuleDict's modules", [&] {
    for (auto slot = dict.begin(); slot != dict.end(); ++slot) static_cast<void>(slot->name());
    static_cast<void>(dict.type_name() + nn::to_string(dict));
    static_cast<void>(dict.state_dict());
  });
  nn::ModuleList<nn::Layer> list;
  expect_sound("ModuleList::push_back of nothing", [&] { list.push_back(std::shared_ptr<nn::Linear>()); });
  expect_sound("ModuleList's modules", [&] {
    for (auto slot = list.begin(); slot != list.end(); ++slot) static_cast<void>(slot->name());
    static_cast<void>(list.type_name() + nn::to_string(list));
  });
}

TEST(Misuse, OfReportsOfSurgery) {
  nn::Sequential net(nn::make<nn::Linear>(3, 3), nn::make<nn::LayerNorm>(3));
  nn::surgery::Report report = amp::apply_low_precision_layernorm(net);
  expect_sound("Report::add_note", [&] { report.add_note(std::string(100000, '\n')); });
  expect_sound("Report's lists", [&] {
    static_cast<void>(report.replaced().size() + report.kept().size() + report.notes().size() +
                      report.parameter_pairs().size());
  });
  expect_sound("Report::undo", [&] { static_cast<void>(report.undo()); });
  expect_sound("Report::undo twice", [&] { static_cast<void>(report.undo()); });
  expect_sound("Report::undo of an empty one", [&] { static_cast<void>(nn::surgery::Report().undo()); });
  nn::surgery::Report late;
  {
    nn::Sequential gone(nn::make<nn::LayerNorm>(3));
    late = amp::apply_low_precision_layernorm(gone);
  }
  EXPECT_EQ(net(ones({2, 3})).shape(), (Shape{2, 3}));
}

TEST(Misuse, OfSchedulesAsValues) {
  using optim::Schedule;
  const Schedule step = optim::StepLROptions{.step_size = 3};
  const std::vector<Schedule> none, one{step}, two{step, step};
  expect_sound("Schedule::chain", [&] { static_cast<void>(Schedule::chain("chain", none)); });
  expect_sound("Schedule::sequence of none",
               [&] { static_cast<void>(Schedule::sequence("none", none, {})); });
  for (const std::vector<std::int64_t>& milestones :
       {std::vector<std::int64_t>{}, {0}, {-1}, {5, 3}, {std::numeric_limits<std::int64_t>::max()}}) {
    expect_sound("Schedule::sequence",
                 [&] { static_cast<void>(Schedule::sequence("s", two, milestones).lr(7, 0.1)); });
    expect_sound("Schedule::sequence of one",
                 [&] { static_cast<void>(Schedule::sequence("s", one, milestones).lr(7, 0.1)); });
  }
  Schedule moved = step, there = std::move(moved);
  for (const Schedule& schedule : {step, there, moved}) {  // NOLINT: that is the point
    for (const std::int64_t at :
         {std::int64_t{-1}, std::int64_t{0}, std::numeric_limits<std::int64_t>::max()}) {
      expect_sound("Schedule::lr", [&] { static_cast<void>(schedule.lr(at, kNan, 7)); });
      expect_sound("Schedule::covers", [&] { static_cast<void>(schedule.covers(at)); });
    }
    expect_sound("Schedule::require_groups", [&] { schedule.require_groups(0); });
    expect_sound("Schedule's facts", [&] {
      static_cast<void>(schedule.drives_momentum() || schedule.needs_host() || schedule.pieces().empty());
    });
  }
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 0.1});
  optim::LRSchedulerOf<optim::StepLROptions> scheduler(sgd, optim::StepLROptions{.step_size = 3});
  expect_sound("LRScheduler's facts", [&] {
    static_cast<void>(scheduler.base_lrs().size() + static_cast<std::size_t>(scheduler.last_epoch()) +
                      scheduler.schedule().pieces().size());
  });
  optim::ReduceLROnPlateau plateau(sgd);
  expect_sound("ReduceLROnPlateau's facts", [&] {
    static_cast<void>(plateau.best() + static_cast<double>(plateau.last_epoch() + plateau.num_bad_epochs()));
  });
  expect_sound("Optimizer's facts", [&] {
    static_cast<void>(sgd.num_groups() + sgd.parameters().size() + sgd.step_calls() + sgd.id());
    static_cast<void>(sgd.options(7));
  });
  expect_sound("add_param_group of nothing", [&] { sgd.add_param_group({.parameters = {}}); });
  expect_sound("add_param_group of the same", [&] { sgd.add_param_group({.parameters = {{"w", w}}}); });
  expect_sound("add_param_group of undefined", [&] {
    sgd.add_param_group({.parameters = {{"", Tensor()}}});
  });
}

TEST(Misuse, OfScalersAndReports) {
  amp::GradScaler scaler, moved = std::move(scaler);
  for (const amp::GradScaler* const s : {&scaler, &moved}) {  // NOLINT: what was moved from too
    expect_sound("GradScaler's options", [&] {
      static_cast<void>(s->is_enabled() || s->get_growth_factor() + s->get_backoff_factor() > 0 ||
                        s->get_growth_interval() > s->options().growth_interval);
    });
  }
  const Tensor w = ones({2}).requires_grad_();
  optim::SGD sgd(std::vector<Tensor>{w}, {.lr = 0.1});
  amp::GradScaler used;
  used.scale(sum(w * 1e38)).backward();
  const amp::StepResult result = used.step(sgd);
  expect_sound("StepResult::skipped", [&] { static_cast<void>(result.skipped()); });
  expect_sound("StepResult::first_nonfinite", [&] { static_cast<void>(result.first_nonfinite()); });
  amp::Trace trace;
  expect_sound("Trace::reset", [&] { trace.reset(); });
  expect_sound("TraceReport",
               [&] { static_cast<void>(trace.report().calls() + trace.report().casts().bytes); });
  autograd::DetectAnomaly watch;
  expect_sound("DetectAnomaly", [&] {
    static_cast<void>(log(zeros({2}) - 1.0));
    if (watch.found()) static_cast<void>(watch.found()->text());
    watch.reset();
    static_cast<void>(watch.found());
  });
  amp::CapturedStep step(Device::cpu(), [] { return ones({}); });
  expect_sound("CapturedStep::is_recorded", [&] { static_cast<void>(step.is_recorded()); });
  for (const char* name : {"", "fp32", "amp_fp16", "amp_bf16", "int8"}) {
    expect_sound("NormPrecision", [&] {
      const amp::NormPrecision precision(name);
      static_cast<void>(precision.acts() || precision.why_not().empty());
    });
  }
}

TEST(Misuse, OfFiles) {
  io::TensorFile file;
  const std::vector<std::pair<std::string, Tensor>> none, undefined{{"x", Tensor()}},
      twice{{"x", ones({2})}, {"x", ones({2})}}, odd{{"\xff\n", ones({2})}};
  for (const auto& named : {none, undefined, twice, odd}) {
    expect_sound("TensorFile::add", [&] { file.add("p.", named); });
    expect_sound("TensorFile::save", [&] { file.save(testing::TempDir() + "/mezzo_misuse.safetensors"); });
    expect_sound("TensorFile::save nowhere", [&] { file.save("/nowhere/else"); });
    expect_sound("TensorFile::save without a name", [&] { file.save(""); });
    expect_sound("TensorFile::with_prefix", [&] { static_cast<void>(file.with_prefix("\n")); });
  }
  std::string text = "{}      ";
  std::vector<std::byte> bytes(8 + text.size());
  bytes[0] = std::byte{8};
  for (std::size_t i = 0; i < text.size(); ++i) bytes[8 + i] = static_cast<std::byte>(text[i]);
  expect_sound("SafeTensors", [&] {
    io::SafeTensors empty = io::SafeTensors::from_bytes(std::move(bytes));
    const io::SafeTensors there = std::move(empty);
    for (const io::SafeTensors* const s : {&there, &static_cast<const io::SafeTensors&>(empty)}) {
      static_cast<void>(s->contains("x") || s->contains(""));
      static_cast<void>(s->entries().size() + s->names().size() + s->metadata().size());
    }
  });
}

TEST(Misuse, OfStreamsAndEvents) {
  using cuda::Event;
  using cuda::Stream;
  for (const Device device : {Device::cpu(), Device::cuda(0), Device::cuda(99)}) {
    expect_sound("Stream", [&] {
      const Stream stream(device);
      static_cast<void>(stream.id() + (stream.query() ? 1 : 0) + (stream.is_capturing() ? 1 : 0));
      static_cast<void>(stream.handle());
      stream.synchronize();
    });
    expect_sound("Event", [&] {
      Event event;
      event.synchronize();
      static_cast<void>(event.query() || event.handle() != nullptr);
      event.record(Stream(device));
      event.wait(Stream(device));
    });
  }
  expect_sound("Event::elapsed_ms", [] { static_cast<void>(Event().elapsed_ms(Event())); });
}

}  // namespace
}  // namespace mezzo::misuse
