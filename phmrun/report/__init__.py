"""Report pages of sweeps."""
