# sound: a property called backward is looked up for what it does

# %%
import torch


class Tape:
    @property
    def backward(self):
        self.done = torch.ones(1)


def rewind():
    tape = Tape()
    tape.backward
    return tape.done


# %%
done = rewind()
