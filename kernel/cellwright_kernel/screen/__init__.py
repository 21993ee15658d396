"""Seeing: the screen's pixels, when it has settled, what changed on it, and what is written on it.

Used by the kernel host (its screenshots) and by both kernels (`screen`, `pyautogui.screenshot`).
"""
