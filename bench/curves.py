#!/usr/bin/env python3
"""Trains the networks of mnist_cnn, char_gpt and cifar_resnet for 100 steps by these programs and by PyTorch, from the same
weights and with the same batches, and compares the losses step by step."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

# Name, program, flags. The last one is the GPT with the sizes that it has without flags.
CASES = [("mnist_cnn", "mnist_cnn", []),
         ("cifar_resnet 9", "cifar_resnet", ["--width", "4", "--lr", "0.0001"]),
         ("cifar_resnet 18", "cifar_resnet", ["--model", "resnet18", "--width", "4", "--lr", "0.00005"]),
         ("char_gpt 2 x 64", "char_gpt", ["--layers", "2", "--width", "64", "--batch", "8", "--sample", "0"]),
         ("char_gpt 4 x 128", "char_gpt", ["--batch", "8", "--sample", "0"])]
# In 16 bits two libraries round at other places: their losses may be as far apart as 16 bits are from f32, twice.
MOST_IN_F32 = 1e-4
MOST_OF_NOISE = 2


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
    return done.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="build folder with the examples")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--precision", nargs="*", default=["fp32", "amp_bf16"], help="of fp32, amp_fp16, amp_bf16")
    options = parser.parse_args()
    missed = False
    print(f"| training, {options.steps} steps | precision | first loss | last loss | PyTorch's | largest difference | most |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, program, flags in CASES:
            for precision in options.precision:
                record = f"{folder}/record.safetensors"
                run([f"{options.build}/examples/{program}", "--device", "cpu", "--precision", precision, "--record", record,
                     "--duration", f"{options.steps}ba", "--eval-interval", f"{options.steps}ba"] + flags)
                result = json.loads(run([options.python, str(ROOT / "bench/peers/pytorch_training.py"), record]))
                most = MOST_OF_NOISE * result["noise"] if "noise" in result else MOST_IN_F32
                good = result["difference"] <= most
                missed = missed or not good
                print(f"| {name} | {precision} | {result['first']:.6f} | {result['last']:.6f} | {result['peer_last']:.6f} | "
                      f"{result['difference']:.1e} | {most:.1e} {'ok' if good else 'MISSED'} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
