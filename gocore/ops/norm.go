package ops

// normRows are softmax and the normalizations, with their gradients.
var normRows = join(softmaxRows, layerNormRows, groupNormRows, batchNormRows, rmsNormRows, weightNormRows)
