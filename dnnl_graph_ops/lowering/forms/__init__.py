"""Equal formulations of the ConvTranspose family, one module per idea."""
