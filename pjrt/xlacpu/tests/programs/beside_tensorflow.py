"""The plugin and TensorFlow in one process, whichever of the two comes first."""

import os
import sys

from vet import vet


def compute():
    import numpy as np
    import tensorflow as tf

    net = tf.keras.Sequential([tf.keras.layers.Input((4,)), tf.keras.layers.Dense(3)])
    print(float(tf.function(lambda x: tf.reduce_sum(net(x) * 0 + x[:, :3]), jit_compile=True)(np.ones((2, 4), "f"))))


for act in (vet, compute) if sys.argv[2] == "plugin" else (compute, vet, compute):
    act()
names = {line.split()[-1] for line in open("/proc/self/maps") if "_cc.so" in line}
print(sorted(os.path.basename(name) for name in names))
