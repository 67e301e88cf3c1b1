"""The experiment on noise: trained and chosen on spoiled data, measured on clean data."""
