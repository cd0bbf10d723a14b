"""Reads candles as lines of high, low and close, and prints the last values of talipp's indicators as JSON."""
import json
import sys

from talipp.indicators import ATR, BB, EMA, MACD, RSI, SMA
from talipp.ohlcv import OHLCV

candles = [[float(figure) for figure in line.split()] for line in sys.stdin]
closes = [close for _, _, close in candles]
macd = MACD(12, 26, 9, closes)[-1]
bands = BB(20, 2, closes)[-1]
print(json.dumps({
    "rsi": RSI(14, closes)[-1],
    "atr": ATR(14, [OHLCV(close, high, low, close) for high, low, close in candles])[-1],
    "sma": SMA(20, closes)[-1],
    "ema": EMA(20, closes)[-1],
    "macd": [macd.macd, macd.signal, macd.histogram],
    "bands": [bands.lb, bands.cb, bands.ub],
}))
