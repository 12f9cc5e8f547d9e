"""graph_convolution: a graph net learns the groups of a network's nodes from a few that are known."""
import torch
import torch.nn.functional as F
from torch import nn

import twin

NODES, GROUPS, FEATURES = 200, 4, 16


class GraphConv(nn.Module):
    """A node's new features: the sum of what its neighbours send along the edges."""

    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(in_features, out_features))
        self.bias = nn.Parameter(torch.zeros(out_features))

    def forward(self, x, edges, norm):
        messages = torch.matmul(x, self.weight).index_select(0, edges[0]) * norm
        support = torch.zeros(x.size(0), self.bias.numel(), device=x.device)
        return torch.index_add(support, 0, edges[1], messages) + self.bias


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.gc1 = GraphConv(FEATURES, 32)
        self.gc2 = GraphConv(32, GROUPS)
        self.dropout = twin.Dropout(0.5)

    def forward(self, x, edges, norm):
        hidden = self.dropout(F.relu(self.gc1(x, edges, norm)))
        return F.log_softmax(self.gc2(hidden, edges, norm), dim=1)


def connect(groups):
    """Pairs of nodes, most of them of one group, in both directions, and each node with itself."""
    one, other = twin.randint(NODES, 3000), twin.randint(NODES, 3000)
    chance = torch.where(groups[one] == groups[other], 0.5, 0.05)
    drawn = twin.rand(3000) < chance
    start, end, self = one[drawn], other[drawn], torch.arange(NODES)
    return torch.stack([torch.cat([start, end, self]), torch.cat([end, start, self])])


def edge_weights(edges):
    """Each edge counts less the more edges its nodes have."""
    degree = torch.index_add(torch.zeros(NODES), 0, edges[1], torch.ones(edges.size(1)))
    weight = degree.rsqrt()
    return (weight[edges[0]] * weight[edges[1]]).unsqueeze(1)


def main():
    args = twin.parse(steps=100)
    labels = twin.randint(GROUPS, NODES)
    edges = connect(labels)
    norm = edge_weights(edges).to(args.device)
    features = (twin.randn(NODES, FEATURES) + F.one_hot(labels, FEATURES)).to(args.device)
    net = GCN()
    twin.init(net)
    net.to(args.device)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)

    def run():
        return net(features, edges.to(args.device), norm).cpu()

    for step in range(args.steps):
        optimizer.zero_grad()
        loss = F.nll_loss(run()[:40], labels[:40])
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(f"step {step} loss {loss.item():.6g}")
    net.eval()
    with torch.no_grad():
        output, target = run()[40:], labels[40:]
        accuracy = (output.argmax(1) == target).to(output.dtype).mean()
        print(f"test loss {F.nll_loss(output, target).item():.6g} accuracy {accuracy.item():.3g}")


if __name__ == "__main__":
    main()
