#!/bin/sh
# The demo pair's draft from nothing: prompts, answers, training, acceptance, entry (docs/demo-draft.md).
# Half an hour on one data-centre GPU; several share the answers. The same script goes on where
# it was ended.
#
#   tools/train_demo.sh FOLDER
set -eu
PATH="$PATH:$(dirname "$0")/../.venv/bin" exec dflash train smollm2-135m --weights q4_1 \
    --num-prompts 34256 --self-prompts 40000 --held-out 256 \
    --max-tokens 256 --max-length 2304 \
    --layers 4 --block-size 8 --mask-token 16 \
    --steps 8000 --batch-size 64 --anchors 80 --learning-rate 0.02 --dpace \
    --seed 1 --output "${1:?FOLDER}"
