// Learns one column of a table (CSV) from the others: classes if it holds text or few whole numbers, else a
// number. Without a file it learns the price of houses, or --target segment, in a table that it makes itself.
#include "../model_program.h"
#include "table.h"

using namespace mezzo;

struct Options : examples::ModelOptions {
  Options() : ModelOptions{.duration = "20ep", .eval_interval = "5ep"} {}
  std::string target = "price";
  std::vector<std::string> leave_out;
};

void add_options(CLI::App& app, Options& o) {
  examples::add_model_options(app, o, "CSV file with a header");
  app.add_option("--target", o.target, "column to learn")->capture_default_str();
  app.add_option("--leave-out", o.leave_out, "columns to learn nothing from");
}

void run(const Options& o) {
  manual_seed(o.seed);
  const Device device = examples::device_of(o);
  const data::Table table =
      o.data.empty() ? examples::made_houses(4000, 1, o.target) : data::read_csv(o.data);
  const auto [x, y, classes, learned, held_out] = examples::encoded(table, o.target, o.leave_out);
  const data::TensorDataset rows(x, y);
  data::DataLoader train_loader(data::Subset(rows, learned),
                                {.batch_size = o.batch, .shuffle = true, .seed = o.seed, .device = device});
  data::DataLoader test_loader(data::Subset(rows, held_out), {.batch_size = 1000, .device = device});

  const bool is_number = classes.empty();
  const auto outputs = is_number ? 1 : static_cast<std::int64_t>(classes.size());
  nn::Sequential net{nn::Linear(x.size(1), 64), nn::ReLU(), nn::Linear(64, 64), nn::ReLU(),
                     nn::Linear(64, outputs)};
  net.to(device);
  optim::AdamW optimizer(net, {.lr = o.lr});
  const train::EvalMetric r2("r2", train::R2Score()), accuracy("accuracy", train::Accuracy());
  train::Trainer trainer({.model = net,
                          .loss = is_number ? train::Loss(nn::MSELoss()) : nn::CrossEntropyLoss(),
                          .optimizer = optimizer,
                          .schedule = examples::warmup_cosine(o, train_loader.size()),
                          .train_loader = train_loader,
                          .eval_loader = test_loader,
                          .metrics = {is_number ? r2 : accuracy},
                          .max_duration = o.duration,
                          .eval_interval = o.eval_interval,
                          .precision = examples::precision_of(o),
                          .callbacks = examples::callbacks_of(o),
                          .sinks = examples::sinks_of(o, "tabular"),
                          .save = examples::save_of(o),
                          .resume = !o.resume.empty(),
                          .profile = examples::profile_of(o),
                          .parallel = dist::data_parallel()});
  trainer.fit();
  examples::Goal goal{.unit = is_number ? "% of the variance" : "%"};
  if (o.data.empty()) goal.wanted = 90;
  examples::finish(o, goal, is_number ? "r2" : "accuracy", trainer.state());
}

int main(int argc, char** argv) {
  return run_program<Options>(argc, argv, "tabular", "Learns a column of a table.", add_options, run,
                              examples::end_processes);
}
