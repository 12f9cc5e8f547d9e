"""dcgan: a generator learns to draw digits that a discriminator takes for real ones."""
import torch
from torch import nn

import twin

BATCH, LATENT, FEATURES = 16, 32, 8


class NetG(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.ConvTranspose2d(LATENT, 2 * FEATURES, 7, bias=False),
            nn.BatchNorm2d(2 * FEATURES),
            nn.ReLU(),
            nn.ConvTranspose2d(2 * FEATURES, FEATURES, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(FEATURES),
            nn.ReLU(),
            nn.ConvTranspose2d(FEATURES, 1, 4, stride=2, padding=1, bias=False),
            nn.Sigmoid(),
        )

    def forward(self, noise):
        return self.main(noise)


class NetD(nn.Module):
    def __init__(self):
        super().__init__()
        self.main = nn.Sequential(
            nn.Conv2d(1, FEATURES, 4, stride=2, padding=1, bias=False),
            nn.LeakyReLU(0.2),
            nn.Conv2d(FEATURES, 2 * FEATURES, 4, stride=2, padding=1, bias=False),
            nn.BatchNorm2d(2 * FEATURES),
            nn.LeakyReLU(0.2),
            nn.Conv2d(2 * FEATURES, 1, 7, bias=False),
        )

    def forward(self, image):
        return self.main(image).flatten()


def main():
    args = twin.parse(steps=40, mixed=True)
    generator = NetG()
    discriminator = NetD()
    twin.init(generator)
    twin.init(discriminator)
    generator.to(args.device)
    discriminator.to(args.device)
    criterion = nn.BCEWithLogitsLoss()
    optimizer_g = torch.optim.Adam(generator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    optimizer_d = torch.optim.Adam(discriminator.parameters(), lr=2e-4, betas=(0.5, 0.999))
    scaler = torch.amp.GradScaler(args.device.type, enabled=args.dtype == torch.float16)
    real_label, fake_label = torch.ones(BATCH, device=args.device), torch.zeros(BATCH, device=args.device)

    for step in range(args.steps):
        # The discriminator: log(D(x)) + log(1 - D(G(z))) shall grow.
        real = twin.digits(twin.randint(10, BATCH)).to(args.device)
        noise = twin.randn(BATCH, LATENT, 1, 1).to(args.device)
        optimizer_d.zero_grad()
        with torch.autocast(args.device.type, args.dtype, enabled=args.amp):
            fake = generator(noise)
            loss_d = criterion(discriminator(real), real_label) + criterion(discriminator(fake.detach()), fake_label)
        scaler.scale(loss_d).backward()
        scaler.step(optimizer_d)

        # The generator: log(D(G(z))) shall grow.
        optimizer_g.zero_grad()
        with torch.autocast(args.device.type, args.dtype, enabled=args.amp):
            loss_g = criterion(discriminator(fake), real_label)
        scaler.scale(loss_g).backward()
        scaler.step(optimizer_g)
        scaler.update()
        if step % 2 == 0:
            print(f"step {step} loss_d {loss_d.item():.6g} loss_g {loss_g.item():.6g}")


if __name__ == "__main__":
    main()
