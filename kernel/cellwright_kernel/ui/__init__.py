"""What stands on the screen as a tree of roles, names and boxes: pages through Playwright, native programs over AT-SPI.

Used by both kernels (`ui`). Every box is in pixels of the screen, so that pyautogui clicks where it says.
"""
