"""`dflash doctor`: facts gathered side by side, findings made of them, and one verdict.

Each area is a file: `read` asks the machine, and that something is not there is an answer too;
`findings` is pure and says what the answer means, and which command mends it.
"""
