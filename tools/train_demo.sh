#!/bin/sh
# The demo pair's draft from nothing, on one GPU: prompts, answers, training, acceptance, entry.
# 3 layers, blocks of 8, seed 1. The same script goes on where it was ended.
#
#   tools/train_demo.sh PROMPTS.jsonl FOLDER [URL]
#
# PROMPTS.jsonl: as many and as varied as can be had, lines of {"prompt": ...}; the first draft was
# trained on 9 million tokens of answers and was still getting better. URL: a server of the target,
# `vllm serve HuggingFaceTB/SmolLM2-135M-Instruct`; without it the answers are made one by one.
set -eu
prompts=${1:?PROMPTS.jsonl} folder=${2:?FOLDER}
[ -z "${3:-}" ] || set -- --url "$3"
case ${1:-} in --url) ;; *) set -- ;; esac
exec dflash train smollm2-135m \
    --prompts "$prompts" --num-prompts 80000 --held-out 128 "$@" \
    --max-tokens 320 --max-length 384 \
    --layers 3 --block-size 8 --mask-token 16 \
    --steps 10000 --batch-size 64 --anchors 80 --learning-rate 0.02 \
    --seed 1 --output "$folder"
