"""Writes the files of this folder by PEFT: python3 make.py (with torch, peft, safetensors)."""
import pathlib

import peft
import torch
from safetensors.torch import save_file

HERE = pathlib.Path(__file__).parent


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(7, 4)
        self.fc = torch.nn.Linear(4, 12)
        self.conv = torch.nn.Conv2d(3, 4, 3, padding=1)
        self.head = torch.nn.Linear(16, 2)

    def forward(self, tokens):  # [N, 2]
        x = self.fc(self.embed(tokens)).reshape(-1, 3, 4, 2)
        return self.head(torch.tanh(self.conv(x)).mean(3).flatten(1))


torch.manual_seed(0)
base = Net().double()
names = {"base." + name: tensor.clone() for name, tensor in base.state_dict().items()}
net = peft.get_peft_model(base, peft.LoraConfig(
    r=2, lora_alpha=6, lora_dropout=0.25, target_modules=["embed", "fc", "conv"], use_rslora=True))
with torch.no_grad():
    for name, parameter in net.named_parameters():
        if "lora_" in name:
            parameter.copy_(torch.randn(parameter.shape) / 2)
net.save_pretrained(HERE)
(HERE / "README.md").unlink(missing_ok=True)
tokens = torch.tensor([[0, 1], [2, 3], [6, 6]])
net.eval()
save_file(names | {"tokens": tokens, "result": net(tokens).detach()}, HERE / "net.safetensors")
