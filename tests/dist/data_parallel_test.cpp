// DataParallel in fast mode: gradients and buckets, against one process with the same global batch.
#include "mezzo/dist/data_parallel.h"

#include "dist/parallel_support.h"
#include "mezzo/autograd/bind.h"
#include "mezzo/nn/norm.h"

namespace mezzo {
namespace {

using dist::DataParallel;
using dist::DataParallelOptions;
using dist::Group;
using dist::ReduceOp;
using test::batch_of;
using test::bytes_of;
using test::difference;
using test::gradients_alone;
using test::gradients_of;
using test::loss_of;
using test::make_mlp;
using test::message_of;
using test::run_ranks;
using test::share_of;

TEST(DataParallel, GradientsAreThoseOfTheGlobalBatch) {
  for (const int p : {1, 2, 3, 4}) {
    SCOPED_TRACE(p);
    const auto batch = batch_of(1, 12);
    const auto expected = gradients_alone(5, batch);
    run_ranks(p, [&](const Group& group) {
      const auto net = make_mlp(5 + static_cast<std::uint64_t>(group.rank()));  // others than rank 0's
      DataParallel parallel(net, {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 500});
      const void* memory = nullptr;
      for (int step = 0; step < 4; ++step) {
        net->zero_grad();
        loss_of(*net, share_of(batch, group)).backward();
        EXPECT_LT(difference(gradients_of(*net), expected), 1e-6) << step;
        // Buckets are laid out anew after the first step, and are the same memory from then on.
        const void* const now = net->parameters()[0].grad().impl().data();
        if (p > 1 && step > 1) {
          EXPECT_EQ(now, memory);
        }
        memory = now;
      }
    });
  }
}

TEST(DataParallel, OneProcessIsLeftAsItIs) {
  const auto batch = batch_of(1, 6);
  const auto expected = gradients_alone(5, batch);
  const auto net = make_mlp(5);
  DataParallel parallel(net, {.group = Group()});
  loss_of(*net, batch).backward();
  EXPECT_TRUE(bytes_of(gradients_of(*net)) == bytes_of(expected));
  const Tensor first = net->parameters()[0].grad();
  {
    const auto no_sync = parallel.no_sync();
    loss_of(*net, batch).backward();
  }
  loss_of(*net, batch).backward();
  EXPECT_LT(difference({net->parameters()[0].grad()}, {expected[0] * 3.0}), 1e-6);
  EXPECT_EQ(dist::traffic(parallel.group()).bytes, 0U);
}

TEST(DataParallel, WithoutItBackwardIsAsBefore) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    { DataParallel parallel(net, {.group = group}); }
    const auto batch = share_of(batch_of(1, 6), group);
    loss_of(*net, batch).backward();
    EXPECT_TRUE(bytes_of(gradients_of(*net)) == bytes_of(gradients_alone(5, batch)));
    DataParallel again(net, {.group = group});
  });
}

TEST(DataParallel, WhatWasReducedIsNotReducedAgain) {
  for (const ReduceOp op : {ReduceOp::mean, ReduceOp::sum}) {
    const auto one = batch_of(1, 6), two = batch_of(2, 6), three = batch_of(3, 6);
    const double factor = op == ReduceOp::sum ? 2 : 1;
    std::vector<Tensor> expected;
    for (std::size_t i = 0; i < 6; ++i)
      expected.push_back(
          (gradients_alone(5, one)[i] + gradients_alone(5, two)[i] + gradients_alone(5, three)[i]) * factor);
    run_ranks(2, [&](const Group& group) {
      const auto net = make_mlp(5);
      DataParallel parallel(net, {.group = group, .reduction = op, .first_bucket_bytes = 100});
      for (int step = 0; step < 3; ++step) {
        if (step == 1) {
          for (const Tensor& parameter : net->parameters()) parameter.grad().zero_();  // not dropped
        } else {
          net->zero_grad();
        }
        loss_of(*net, share_of(one, group)).backward();  // reduced
        const Tensor kept = net->parameters()[0].grad();
        {
          const auto no_sync = parallel.no_sync();
          const auto nested = parallel.no_sync();
          loss_of(*net, share_of(two, group)).backward();  // held back
        }
        loss_of(*net, share_of(three, group)).backward();
        EXPECT_LT(difference(gradients_of(*net), expected), 1e-6) << step;
        EXPECT_TRUE(net->parameters()[0].grad().is_same(kept));
      }
    });
  }
}

TEST(DataParallel, WhatIsHeldBackIsShownWithWhatWasReduced) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group});
    loss_of(*net, share_of(batch_of(1, 6), group)).backward();
    auto expected = test::copies_of(gradients_of(*net));
    const auto no_sync = parallel.no_sync();
    for (std::uint64_t micro = 2; micro < 4; ++micro) {
      const auto own = share_of(batch_of(micro, 6), group);
      loss_of(*net, own).backward();
      const auto more = gradients_alone(5, own);
      for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = expected[i] + more[i];
      EXPECT_LT(difference(gradients_of(*net), expected), 1e-6);
    }
  });
}

TEST(DataParallel, WhatOnlyNoSyncHasReachedIsReduced) {
  run_ranks(2, [](const Group& group) {
    const auto net = nn::make<test::Branches>();
    test::fill(*net, 5);
    DataParallel parallel(net, {.group = group, .find_unused_parameters = true});
    const auto batch = batch_of(1, 6);
    net->takes_left = false;
    if (group.rank() == 1) {
      const auto no_sync = parallel.no_sync();
      loss_of(*net, batch).backward();
    }
    net->takes_left = true;
    loss_of(*net, batch).backward();
    ASSERT_TRUE(net->right->weight.grad().defined());
    const auto other = nn::make<test::Branches>();
    test::fill(*other, 5);
    other->takes_left = false;
    loss_of(*other, batch).backward();
    EXPECT_LT(difference({net->right->weight.grad()}, {other->right->weight.grad() / 2.0}), 1e-6);
  });
}

TEST(DataParallel, AGradientThatSomebodyKeepsIsNotOverwritten) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group});
    std::vector<Tensor> kept;
    std::vector<std::vector<std::uint8_t>> values;
    for (std::uint64_t step = 0; step < 4; ++step) {
      net->zero_grad();
      loss_of(*net, share_of(batch_of(step, 6), group)).backward();
      kept.push_back(net->parameters()[2].grad());
      values.push_back(bytes_of(kept.back()));
    }
    EXPECT_TRUE(bytes_of(kept) == values);
  });
}

TEST(DataParallel, NoSyncAddsToThisRankOnly) {
  const auto counts = run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group});
    const auto calls = dist::traffic(group).calls;
    const auto batch = share_of(batch_of(1, 6), group);
    try {
      const auto no_sync = parallel.no_sync();
      loss_of(*net, batch).backward();
      throw ValueError("test", "a", "b", "");
    } catch (const ValueError&) {
    }
    EXPECT_TRUE(bytes_of(gradients_of(*net)) == bytes_of(gradients_alone(5, batch)));
    EXPECT_EQ(dist::traffic(group).calls, calls);
    net->zero_grad();  // drops what was held back
    loss_of(*net, share_of(batch_of(2, 6), group)).backward();
    EXPECT_LT(difference(gradients_of(*net), gradients_alone(5, batch_of(2, 6))), 1e-6);
  });
  EXPECT_GT(counts.all_reduces, 0U);
}

TEST(DataParallel, ParametersMustNotChangeWhileGradientsAreHeldBack) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group});
    const auto batch = share_of(batch_of(1, 6), group);
    const auto write = [&] {
      const NoGrad no_grad;
      net->parameters()[3].mul_(0.5);
    };
    {
      const auto no_sync = parallel.no_sync();
      loss_of(*net, batch).backward();
    }
    write();
    EXPECT_NE(message_of<StateError>([&] {
                loss_of(*net, batch).backward();
              }).find("got 2.bias, which was written"),
              std::string::npos);
    net->zero_grad();
    loss_of(*net, batch).backward();  // nothing is held back any more
    write();
    loss_of(*net, batch).backward();
  });
}

TEST(DataParallel, UnusedParametersAreNamed) {
  run_ranks(2, [](const Group& group) {
    const auto net = nn::make<test::Branches>();
    DataParallel parallel(net, {.group = group});
    const auto calls = dist::traffic(group).calls;
    const auto batch = share_of(batch_of(1, 6), group);
    EXPECT_EQ(
        message_of<AutogradError>([&] { loss_of(*net, batch).backward(); }),
        "DataParallel: expected a backward that gives all parameters a gradient, got none for right.weight, "
        "right.bias, never.weight, never.bias; pass find_unused_parameters = true, or freeze them by "
        "requires_grad_(false)");
    EXPECT_EQ(dist::traffic(group).calls, calls) << "nothing was started";
    net->never->requires_grad_(false);
    net->right->requires_grad_(false);
    loss_of(*net, batch).backward();
    EXPECT_TRUE(net->left->weight.grad().defined());
    EXPECT_FALSE(net->right->weight.grad().defined());
  });
}

TEST(DataParallel, ParametersThatOnlySomeRanksReach) {
  run_ranks(3, [](const Group& group) {
    const auto net = nn::make<test::Branches>();
    test::fill(*net, 5);
    DataParallel parallel(
        net, {.group = group, .first_bucket_bytes = 1, .bucket_bytes = 1, .find_unused_parameters = true});
    net->never->bias.set_grad(full({4}, 7));
    net->takes_left = group.rank() == 1;
    for (int step = 0; step < 2; ++step) {
      net->left->zero_grad();
      net->right->zero_grad();
      const auto batch = share_of(batch_of(1, 6), group);
      loss_of(*net, batch).backward();
      // Each branch's gradient is a third of the sum over the ranks that took it.
      std::vector<Tensor> left, right;
      for (int r = 0; r < 3; ++r) {
        const auto other = nn::make<test::Branches>();
        test::fill(*other, 5);
        other->takes_left = r == 1;
        loss_of(*other, test::part_of(batch_of(1, 6), r, 3)).backward();
        (r == 1 ? left : right).push_back((r == 1 ? other->left : other->right)->weight.grad());
      }
      EXPECT_LT(difference({net->left->weight.grad()}, {left[0] / 3.0}), 1e-6);
      EXPECT_LT(difference({net->right->weight.grad()}, {(right[0] + right[1]) / 3.0}), 1e-6);
      EXPECT_FALSE(net->never->weight.grad().defined());
      EXPECT_EQ(net->never->bias.grad().to_vector<double>(), std::vector<double>(4, 7));
    }
  });
}

/// x, with y as an input that gets no gradient.
constexpr Op<NoAttrs> first_op{
    .info = {.name = "first_of_two", .category = Category::passthrough},
    .samples = [] { return std::vector<Sample<NoAttrs>>(); },
    .forward = [](const ForwardArgs<NoAttrs>& args) -> Outputs { return clone(args.in(0)); },
    .vjp = [](const VjpArgs<NoAttrs>& args) -> Gradients {
      return {args.grad(), Tensor()};
    },
    .saves = kSaveNothing,
};

TEST(DataParallel, AnnouncedGradientsThatDoNotComeCountAsUnused) {
  for (const bool find_unused : {false, true}) {
    run_ranks(2, [&](const Group& group) {
      const auto net = make_mlp(5);
      DataParallel parallel(net, {.group = group,
                                  .first_bucket_bytes = 1,
                                  .bucket_bytes = 1,
                                  .find_unused_parameters = find_unused});
      const auto parameters = net->parameters();
      const auto backward = [&](bool is_cut) {
        Tensor loss = sum(parameters[0]);
        for (std::size_t i = 1; i < parameters.size(); ++i) {
          const Tensor term = sum(parameters[i]);
          loss = i == 3 && is_cut ? Tensor(bind(first_op, {loss, term})) : loss + term;
        }
        loss.backward();
      };
      if (!find_unused) {
        EXPECT_NE(message_of<AutogradError>([&] { backward(true); }).find("got none for 2.bias;"),
                  std::string::npos);
        EXPECT_FALSE(parameters[0].grad().defined());
        backward(false);
        EXPECT_EQ(parameters[3].grad().to_vector<double>()[0], 1);
        return;
      }
      backward(true);
      EXPECT_FALSE(parameters[3].grad().defined()) << "no rank has reached it";
      backward(group.rank() == 0);
      EXPECT_EQ(parameters[3].grad().to_vector<double>()[0], 0.5);
      EXPECT_EQ(parameters[0].grad().to_vector<double>()[0], 2);
    });
  }
}

TEST(DataParallel, OneBucketNeverHoldsTwoDTypes) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    auto parameters = net->parameters();
    net->at<nn::Linear>(2).to(DType::bf16);
    net->at<nn::Linear>(4).to(DType::f64);
    DataParallel parallel(net, {.group = group});
    EXPECT_EQ(parallel.bucket_bytes().size(), 3U);
    for (int step = 0; step < 2; ++step) {
      Tensor loss = zeros({});
      for (const Tensor& parameter : parameters)
        loss = loss + sum(parameter * full(parameter.shape(), group.rank() + 1, {.dtype = parameter.dtype()}))
                          .to(DType::f32);
      net->zero_grad();
      loss.backward();
      for (const Tensor& parameter : parameters) {
        EXPECT_EQ(parameter.grad().dtype(), parameter.dtype());
        for (const double value : parameter.grad().to_vector<double>()) EXPECT_EQ(value, 1.5);
      }
    }
  });
}

TEST(DataParallel, BucketsFollowTheOrderOfRank0sGradients) {
  // Layers are used in another order than that of declaration, and another one on rank 1.
  struct Net final : nn::Layer {
    nn::Child<nn::Linear> a{*this, "a", nn::Linear(8, 8, {.bias = false})};
    nn::Child<nn::Linear> b{*this, "b", nn::Linear(8, 16, {.bias = false})};
    nn::Child<nn::Linear> c{*this, "c", nn::Linear(16, 8, {.bias = false})};
    Tensor forward(const Tensor& x) override { return a(c(b(x))); }
  };
  run_ranks(2, [](const Group& group) {
    const auto net = nn::make<Net>();
    DataParallel parallel(net, {.group = group, .first_bucket_bytes = 1, .bucket_bytes = 1});
    EXPECT_EQ(parallel.bucket_bytes(), (std::vector<std::int64_t>{512, 512, 256}));  // c, b, a
    for (int step = 0; step < 2; ++step) {
      sum((*net)(batch_of(1, 2).x)).backward();
      EXPECT_EQ(parallel.bucket_bytes(), (std::vector<std::int64_t>{256, 512, 512}));  // a, c, b
    }
  });
}

TEST(DataParallel, BytesAreThoseOfTheFormula) {
  for (const int p : {2, 4}) {
    std::uint64_t expected = 0;
    const auto bytes = [&](int steps) {
      return run_ranks(p,
                       [&](const Group& group) {
                         const auto net = make_mlp(5);
                         DataParallel parallel(
                             net, {.group = group, .first_bucket_bytes = 100, .bucket_bytes = 900});
                         const auto step = [&] { loss_of(*net, share_of(batch_of(1, 8), group)).backward(); };
                         step();
                         std::uint64_t of_step = 0;
                         for (const std::int64_t bucket : parallel.bucket_bytes())
                           of_step += 2 * static_cast<std::uint64_t>(bucket) *
                                      static_cast<std::uint64_t>(p - 1) / static_cast<std::uint64_t>(p);
                         const auto before = dist::traffic(group).bytes;
                         for (int i = 0; i < steps; ++i) step();
                         EXPECT_EQ(dist::traffic(group).bytes - before,
                                   of_step * static_cast<std::uint64_t>(steps));
                         if (group.rank() == 0) expected = of_step;
                       })
          .bytes;
    };
    const std::uint64_t two = bytes(2), five = bytes(5);
    EXPECT_EQ(five - two, 3 * expected) << "what the transport itself has sent";
  }
}

TEST(DataParallel, AnExceptionChangesNoGradient) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    DataParallel parallel(net, {.group = group, .first_bucket_bytes = 1, .bucket_bytes = 1});
    const auto batch = share_of(batch_of(1, 6), group);
    loss_of(*net, batch).backward();
    const auto before = bytes_of(gradients_of(*net));
    const Tensor weight = net->parameters()[0];
    const auto id = weight.register_hook([](const Tensor&) { throw ValueError("hook", "a", "b", ""); });
    EXPECT_THROW(loss_of(*net, batch).backward(), ValueError);
    EXPECT_TRUE(bytes_of(gradients_of(*net)) == before);
    weight.remove_hook(id);
    net->zero_grad();
    loss_of(*net, batch).backward();
    EXPECT_LT(difference(gradients_of(*net), gradients_alone(5, batch_of(1, 6))), 1e-6);
  });
}

TEST(DataParallel, Rank0sBuffersAreEverybodys) {
  const auto counts = run_ranks(2, [](const Group& group) {
    auto net = nn::make<nn::Sequential>(nn::make<nn::Linear>(8, 6), nn::make<nn::BatchNorm1d>(6),
                                        nn::make<nn::Linear>(6, 4));
    test::fill(*net, 4);
    auto& norm = net->at<nn::BatchNorm1d>(1);
    DataParallel parallel(net, {.group = group});
    const auto batch = share_of(batch_of(1, 8), group);
    loss_of(*net, batch).backward();
    const auto own = bytes_of(norm.running_mean);
    if (group.rank() == 1) norm.num_batches_tracked.get().fill_(40);
    {
      const auto no_sync = parallel.no_sync();
      static_cast<void>(loss_of(*net, batch));
      EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), group.rank() == 1 ? 41 : 2);
      static_cast<void>(dist::all_gather_text("", group));
    }
    net->eval();
    static_cast<void>(loss_of(*net, batch));
    EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), group.rank() == 1 ? 41 : 2);
    net->train();
    static_cast<void>(loss_of(*net, batch));
    EXPECT_EQ(norm.num_batches_tracked.item<std::int64_t>(), 3);
    EXPECT_FALSE(bytes_of(norm.running_mean) == own);
  });
  EXPECT_GE(counts.broadcasts, 3U);
}

TEST(DataParallel, DifferentModelsAreRefusedOnAllRanks) {
  const auto message = [](const auto& change) {
    std::vector<std::string> of_rank(3);
    run_ranks(3, [&](const Group& group) {
      auto net = make_mlp(5);
      DataParallelOptions options{.group = group};
      if (group.rank() == 1) change(net, options);
      of_rank[static_cast<std::size_t>(group.rank())] =
          message_of<ValueError>([&] { DataParallel parallel(net, options); });
    });
    EXPECT_EQ(of_rank[0], of_rank[1]);
    EXPECT_EQ(of_rank[0], of_rank[2]);
    return of_rank[0];
  };
  using Net = std::shared_ptr<nn::Sequential>;
  EXPECT_EQ(
      message([](Net& net, DataParallelOptions&) { net->at<nn::Linear>(2).to(DType::bf16); }),
      "DataParallel: expected one model and the same options on all ranks, got parameter 2.weight [12, 16] "
      "f32 that requires grad on rank 0 and parameter 2.weight [12, 16] bf16 that requires grad on rank 1; "
      "make them by the same code on every rank");
  EXPECT_NE(message([](Net& net, DataParallelOptions&) {
              net->push_back(nn::make<nn::Linear>(4, 4));
            }).find("nothing more on rank 0 and parameter 5.weight [4, 4] f32"),
            std::string::npos);
  EXPECT_NE(message([](Net&, DataParallelOptions& options) { options.bucket_bytes = 7; }).find("and 7 bytes"),
            std::string::npos);
}

TEST(DataParallel, Refusals) {
  run_ranks(2, [](const Group& group) {
    const auto net = make_mlp(5);
    const auto batch = share_of(batch_of(1, 6), group);
    EXPECT_THROW(DataParallel(net, {.group = group, .reduction = ReduceOp::max}), ValueError);
    EXPECT_THROW(DataParallel(net, {.group = group, .reduce_dtype = DType::f64}), ValueError);
    EXPECT_THROW(DataParallel(net, {.group = group, .bucket_bytes = 0}), ValueError);
    EXPECT_THROW(DataParallel(nn::make<nn::Tanh>(), {.group = group}), ValueError);
    {
      DataParallel parallel(net, {.group = group});
      EXPECT_THROW(DataParallel(net, {.group = group}), StateError);
      loss_of(*net, batch).backward();  // the first one still works
      EXPECT_LT(difference(gradients_of(*net), gradients_alone(5, batch_of(1, 6))), 1e-6);
      EXPECT_THROW(loss_of(*net, batch).backward({.create_graph = true}), AutogradError);
      net->at<nn::Linear>(0).to(DType::f64);
      net->at<nn::Linear>(0).to(DType::f32);
      net->zero_grad();
      loss_of(*net, batch).backward();
      net->to(DType::bf16);
      EXPECT_NE(message_of<StateError>([&] {
                  loss_of(*net, {batch.x.to(DType::bf16), batch.y}).backward();
                }).find("0.weight as f32 on cpu, got bf16 on cpu"),
                std::string::npos);
      net->to(DType::f32);
    }
    net->at<nn::Linear>(2).requires_grad_(false);
    DataParallel parallel(net, {.group = group});
    loss_of(*net, batch).backward();
    net->at<nn::Linear>(2).requires_grad_(true);
    EXPECT_NE(
        message_of<StateError>([&] { loss_of(*net, batch).backward(); }).find("got 2.weight, which did not"),
        std::string::npos);
  });
}

}  // namespace
}  // namespace mezzo
