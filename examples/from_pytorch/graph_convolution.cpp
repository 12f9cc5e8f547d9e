// graph_convolution: a graph net learns the groups of a network's nodes from a few that are known.
#include <mezzo/mezzo.h>

#include <cstdio>

#include "twin.h"

using namespace mezzo;

constexpr int kNodes = 200, kGroups = 4, kFeatures = 16;

// A node's new features: the sum of what its neighbours send along the edges.
struct GraphConv final : nn::Module {
  GraphConv(int in_features, int out_features)
      : weight{*this, "weight", zeros({in_features, out_features})},
        bias{*this, "bias", zeros({out_features})} {}

  nn::Param weight, bias;

  Tensor forward(const Tensor& x, const Tensor& edges, const Tensor& norm) {
    const Tensor messages = matmul(x, weight).index_select(0, edges[0]) * norm;
    const Tensor support = zeros({x.size(0), bias.numel()}, x.device());
    return index_add(support, 0, edges[1], messages) + bias;
  }
};

struct GCN final : nn::Module {
  nn::Child<GraphConv> gc1{*this, "gc1", GraphConv(kFeatures, 32)};
  nn::Child<GraphConv> gc2{*this, "gc2", GraphConv(32, kGroups)};
  nn::Child<twin::Dropout> dropout{*this, "dropout", twin::Dropout(0.5)};

  Tensor forward(const Tensor& x, const Tensor& edges, const Tensor& norm) {
    const Tensor hidden = dropout(relu(gc1(x, edges, norm)));
    return log_softmax(gc2(hidden, edges, norm), 1);
  }
};

// Pairs of nodes, most of them of one group, in both directions, and each node with itself.
Tensor connect(const Tensor& groups) {
  const Tensor one = twin::randint(kNodes, {3000}), other = twin::randint(kNodes, {3000});
  const Tensor chance = where(groups[one] == groups[other], full({3000}, 0.5), 0.05);
  const Tensor drawn = twin::rand({3000}) < chance;
  const Tensor start = one[drawn], end = other[drawn], self = arange(kNodes);
  return stack({cat({start, end, self}), cat({end, start, self})});
}

// Each edge counts less the more edges its nodes have.
Tensor edge_weights(const Tensor& edges) {
  const Tensor degree = index_add(zeros({kNodes}), 0, edges[1], ones({edges.size(1)}));
  const Tensor weight = degree.rsqrt();
  return (weight[edges[0]] * weight[edges[1]]).unsqueeze(1);
}

int main(int argc, char** argv) {
  const twin::Args args = twin::parse(argc, argv, {.steps = 100});
  const Tensor labels = twin::randint(kGroups, {kNodes});
  const Tensor edges = connect(labels);
  const Tensor norm = edge_weights(edges).to(args.device);
  const Tensor features = (twin::randn({kNodes, kFeatures}) + one_hot(labels, kFeatures)).to(args.device);
  GCN net;
  twin::init(net);
  net.to(args.device);
  optim::Adam optimizer(net, {.lr = 1e-2, .weight_decay = 5e-4});
  const auto run = [&] { return call(net, features, edges.to(args.device), norm).cpu(); };
  for (int step = 0; step < args.steps; ++step) {
    optimizer.zero_grad();
    const Tensor loss = nll_loss(run()[Slice(0, 40)], labels[Slice(0, 40)]);
    loss.backward();
    optimizer.step();
    if (step % 5 == 0) std::printf("step %d loss %.6g\n", step, loss.item());
  }
  net.eval();
  NoGrad no_grad;
  const Tensor output = run()[Slice(40)], target = labels[Slice(40)];
  const Tensor accuracy = (output.argmax(1) == target).to(DType::f32).mean();
  std::printf("test loss %.6g accuracy %.3g\n", nll_loss(output, target).item(), accuracy.item());
}
