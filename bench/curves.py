#!/usr/bin/env python3
"""Trains the networks of mnist_cnn, char_gpt and cifar_resnet for 100 steps by these programs and by PyTorch, from the same
weights and with the same batches, and compares the losses step by step."""
import argparse
import json
import pathlib
import statistics
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
# In 16 bits two libraries round at other places: their losses may be twice as far apart as PyTorch's are from its own in
# f32, each as the median of several seeds, as one training in five is far from all others from some step on.
MOST_IN_F32 = 1e-4
MOST_OF_NOISE = 2
SEEDS_IN_16_BITS = 5


def run(command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{command[0]} failed: {(done.stderr.strip() or done.stdout.strip()).splitlines()[-1]}")
    return done.stdout


def repeat(options, folder, program, flags, precision, seed):
    """What peers/pytorch_training.py says of one training."""
    record = f"{folder}/record.safetensors"
    run([f"{options.build}/examples/{program}", "--device", "cpu", "--precision", precision, "--seed", str(seed), "--record",
         record, "--duration", f"{options.steps}ba", "--eval-interval", f"{options.steps}ba"] + flags)
    return json.loads(run([options.python, str(ROOT / "bench/peers/pytorch_training.py"), record]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", default=str(ROOT / "build/release"), help="build folder with the examples")
    parser.add_argument("--python", default=sys.executable, help="a Python that has torch")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--precision", nargs="*", default=["fp32", "amp_bf16"], help="of fp32, amp_fp16, amp_bf16")
    parser.add_argument("--only", default="", help="trainings whose name has this in it")
    options = parser.parse_args()
    missed = False
    print(f"| training, {options.steps} steps | precision | first loss | last loss | PyTorch's | largest difference | most |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    with tempfile.TemporaryDirectory() as folder:
        for name, program, flags in (case for case in CASES if options.only in case[0]):
            for precision in options.precision:
                results = [repeat(options, folder, program, flags, precision, seed)
                           for seed in range(1 if precision == "fp32" else SEEDS_IN_16_BITS)]
                result, difference = results[0], statistics.median(result["difference"] for result in results)
                most = MOST_IN_F32
                if precision != "fp32":
                    most = MOST_OF_NOISE * statistics.median(result["noise"] for result in results)
                good = difference <= most
                missed = missed or not good
                print(f"| {name} | {precision} | {result['first']:.6f} | {result['last']:.6f} | {result['peer_last']:.6f} | "
                      f"{difference:.1e} | {most:.1e} {'ok' if good else 'MISSED'} |", flush=True)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
